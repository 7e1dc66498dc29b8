// cli/explore_report.c - the parts of a report, in the order in which it is read.
#include "cli/explore_report.h"

#include "cli/explore_report_parts.h"

#include <stddef.h>
#include <string.h>

static const char CSS[] =
    ":root{color-scheme:light dark}\n"
    "body{max-width:64rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;"
    "color:#222;background:#fff;overflow-wrap:anywhere}\n"
    "h1,h2,h3{line-height:1.25}h2{margin-top:3rem;border-bottom:1px solid #ccc}\n"
    "h3{margin:2rem 0 .5rem}nav li{margin:.2rem 0}\n"
    "table{border-collapse:collapse;font-size:.875rem;overflow-wrap:normal}\n"
    "th,td{padding:.25rem .7rem .25rem 0;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top}\n"
    "th{border-bottom-color:#888}.number{text-align:right;font-variant-numeric:tabular-nums;"
    "white-space:nowrap;padding-right:1rem}\n"
    ".told{text-align:right;max-width:16rem;padding-right:1rem}.what{min-width:14rem}\n"
    ".wide{overflow-x:auto}.unit,.quiet,figcaption{color:#595959}.unit{font-weight:400}\n"
    "figure{margin:1.5rem 0;break-inside:avoid}figcaption{font-size:.875rem;max-width:45rem}\n"
    "details{margin:1rem 0}summary{cursor:pointer;font-weight:600}\n"
    ".verdict{white-space:nowrap;font-weight:600}.confirmed{color:#016b3c}.missed{color:#8a4b00}"
    ".surprise{color:#b3261e}.unknown{color:#595959}.note{color:#8a4b00}\n"
    ".fitted{border:1px solid;border-radius:.25rem;padding:0 .3rem;font-size:.75rem;"
    "color:#8a4b00}\n"
    "svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
    "@media screen and (prefers-color-scheme:dark){\n"
    "body{color:#d8dade;background:#15181c}h2,th,td{border-color:#3a4047}th{border-color:#7d848d}"
    "a{color:#8ab4f8}\n"
    ".unit,.quiet,figcaption,.unknown{color:#a2a8b0}.confirmed{color:#5fd39a}"
    ".missed,.note,.fitted{color:#f0b35e}.surprise{color:#ff8a80}}\n"
    "@media print{body{max-width:none;margin:0;font-size:10pt}h2{break-before:page}"
    "h2:first-of-type{break-before:auto}}\n";

static void begin_file(ps_svg *html, const char *title)
{
    ps_svg_add(html, "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n"
                     "<head>\n<meta charset=\"utf-8\"/>\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                     "style-src 'unsafe-inline'\"/>\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                     "<title>");
    ps_svg_text(html, title);
    ps_svg_add(html, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<h1>", CSS, ps_plot_css);
    ps_svg_text(html, title);
    ps_svg_add(html, "</h1>\n");
}

static void add_contents(ps_svg *html, const ps_report_section *sections, uint32_t count)
{
    ps_svg_add(html, "<nav><ol>\n");
    for (uint32_t i = 0; i < count; i++) {
        ps_svg_add(html, "<li><a href=\"#section-%u\">", i + 1);
        ps_svg_text(html, sections[i].title);
        ps_svg_add(html, "</a>");
        if (sections[i].expectation_count > 0) {
            ps_svg_add(html, ": ");
            ps_report_verdicts(html, &sections[i], 1);
        }
        ps_svg_add(html, "</li>\n");
    }
    ps_svg_add(html, "</ol></nav>\n");
}

static ps_status add_section(ps_svg *html, const ps_report_section *section, uint32_t number,
                             const char *report_title)
{
    ps_svg_add(html, "<section id=\"section-%u\">\n", number);
    if (strcmp(section->title, report_title) != 0) {
        ps_svg_add(html, "<h2>");
        ps_svg_text(html, section->title);
        ps_svg_add(html, "</h2>\n");
    }
    if (section->about != NULL) {
        ps_svg_add(html, "<p>");
        ps_svg_text(html, section->about);
        ps_svg_add(html, "</p>\n");
    }
    ps_report_expectations(html, section);
    PS_TRY(html->status);
    PS_TRY(ps_report_plots(html, section));
    ps_report_parameters(html, section);
    PS_TRY(html->status);
    PS_TRY(ps_report_data(html, section));
    ps_svg_add(html, "</section>\n");
    return html->status;
}

ps_status ps_explore_report_write(const ps_report_section *sections, uint32_t count,
                                  const char *title, ps_buffer *out)
{
    ps_svg html = {.out = out};
    begin_file(&html, title);
    uint32_t expectations = 0;
    for (uint32_t i = 0; i < count; i++) {
        expectations += sections[i].expectation_count;
    }
    if (expectations > 0 && count > 1) {
        ps_svg_add(&html, "<p>Of what is expected, ");
        ps_report_verdicts(&html, sections, count);
        ps_svg_add(&html, ".</p>\n");
    }
    if (count > 1) {
        add_contents(&html, sections, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        PS_TRY(add_section(&html, &sections[i], i + 1, title));
    }
    ps_svg_add(&html, "</body>\n</html>\n");
    return html.status;
}
