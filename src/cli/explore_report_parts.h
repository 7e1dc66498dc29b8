// cli/explore_report_parts.h - what a section of a report holds. For explore_report.c alone.
#ifndef PS_CLI_EXPLORE_REPORT_PARTS_H
#define PS_CLI_EXPLORE_REPORT_PARTS_H

#include "cli/explore_report.h"
#include "cli/svg.h"

// "7 confirmed, 1 not reproduced, 2 unknown".
void ps_report_verdicts(ps_svg *html, const ps_report_section *sections, uint32_t count);

// Nothing where there are none.
void ps_report_expectations(ps_svg *html, const ps_report_section *section);
void ps_report_parameters(ps_svg *html, const ps_report_section *section);
PS_MUST_USE ps_status ps_report_plots(ps_svg *html, const ps_report_section *section);
PS_MUST_USE ps_status ps_report_data(ps_svg *html, const ps_report_section *section);

#endif
