// cli/explore_report_parts.c - expectations and parameters as tables.
#include "cli/explore_report_parts.h"

#include <stddef.h>

// ---- verdicts

static bool is_surprise(const ps_report_expectation *expectation)
{
    return expectation->verdict == PS_REPORT_NOT_REPRODUCED && expectation->reason == NULL;
}

static void add_count(ps_svg *html, uint32_t count, const char *what, bool *is_first)
{
    if (count > 0) {
        ps_svg_add(html, "%s%u %s", *is_first ? "" : ", ", count, what);
        *is_first = false;
    }
}

void ps_report_verdicts(ps_svg *html, const ps_report_section *sections, uint32_t count)
{
    uint32_t of[PS_REPORT_UNKNOWN + 1] = {0};
    uint32_t surprises = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t e = 0; e < sections[i].expectation_count; e++) {
            of[sections[i].expectations[e].verdict]++;
            surprises += is_surprise(&sections[i].expectations[e]);
        }
    }
    bool is_first = true;
    add_count(html, of[PS_REPORT_CONFIRMED], "confirmed", &is_first);
    add_count(html, of[PS_REPORT_NOT_REPRODUCED] - surprises, "not reproduced (with a reason)",
              &is_first);
    add_count(html, surprises, "not reproduced", &is_first);
    add_count(html, of[PS_REPORT_UNKNOWN], "unknown", &is_first);
}

static void add_verdict(ps_svg *html, const ps_report_expectation *expectation)
{
    switch (expectation->verdict) {
    case PS_REPORT_CONFIRMED:
        ps_svg_add(html, "<td class=\"verdict confirmed\">\xe2\x9c\x93 confirmed</td>");
        break;
    case PS_REPORT_NOT_REPRODUCED:
        ps_svg_add(html, "<td class=\"verdict %s\">%s not reproduced</td>",
                   is_surprise(expectation) ? "surprise" : "missed",
                   is_surprise(expectation) ? "\xe2\x9c\x97" : "\xe2\x80\x93");
        break;
    default:
        ps_svg_add(html, "<td class=\"verdict unknown\">? unknown</td>");
        break;
    }
}

static void add_text_cell(ps_svg *html, const char *class, const char *text)
{
    ps_svg_add(html, "<td%s>", class);
    ps_svg_text(html, text);
    ps_svg_add(html, "</td>");
}

void ps_report_expectations(ps_svg *html, const ps_report_section *section)
{
    if (section->expectation_count == 0) {
        return;
    }
    ps_svg_add(html, "<h3>Expectations</h3>\n<p>Of these, ");
    ps_report_verdicts(html, section, 1);
    ps_svg_add(html, ".</p>\n<div class=\"wide\"><table>\n<thead><tr><th>what</th>"
                     "<th class=\"told\">paper</th><th class=\"told\">here</th><th>within</th>"
                     "<th>verdict</th><th>source</th></tr></thead>\n<tbody>\n");
    for (uint32_t i = 0; i < section->expectation_count; i++) {
        const ps_report_expectation *expectation = &section->expectations[i];
        ps_svg_add(html, "<tr><td class=\"what\">");
        ps_svg_text(html, expectation->what);
        if (expectation->reason != NULL) {
            ps_svg_add(html, "<br/><span class=\"quiet\">");
            ps_svg_text(html, expectation->reason);
            ps_svg_add(html, "</span>");
        }
        ps_svg_add(html, "</td>");
        add_text_cell(html, " class=\"told\"",
                      expectation->paper == NULL ? "not known" : expectation->paper);
        add_text_cell(html, " class=\"told\"",
                      expectation->ours == NULL ? "none" : expectation->ours);
        add_text_cell(html, "", expectation->within);
        add_verdict(html, expectation);
        add_text_cell(html, " class=\"quiet\"", expectation->source);
        ps_svg_add(html, "</tr>\n");
    }
    ps_svg_add(html, "</tbody></table></div>\n");
}

// ---- parameters

void ps_report_parameters(ps_svg *html, const ps_report_section *section)
{
    if (section->parameter_count == 0) {
        return;
    }
    uint32_t fitted = 0;
    for (uint32_t i = 0; i < section->parameter_count; i++) {
        fitted += section->parameters[i].is_fitted;
    }
    ps_svg_add(html, "<details><summary>Parameters: %u, %u of them fitted</summary>\n",
               section->parameter_count, fitted);
    if (fitted > 0) {
        ps_svg_add(html, "<p class=\"quiet\">A number that is <span class=\"fitted\">fitted</span> "
                         "was chosen so that results come near what is expected; it is not known "
                         "from elsewhere.</p>\n");
    }
    ps_svg_add(html, "<div class=\"wide\"><table>\n<thead><tr><th>parameter</th>"
                     "<th class=\"number\">value</th><th>unit</th><th></th><th>source</th></tr>"
                     "</thead>\n<tbody>\n");
    for (uint32_t i = 0; i < section->parameter_count; i++) {
        const ps_report_parameter *parameter = &section->parameters[i];
        ps_svg_add(html, "<tr>");
        add_text_cell(html, "", parameter->key);
        add_text_cell(html, " class=\"number\"", parameter->value);
        add_text_cell(html, " class=\"unit\"", parameter->unit);
        ps_svg_add(html, "<td>%s</td>",
                   parameter->is_fitted ? "<span class=\"fitted\">fitted</span>" : "");
        add_text_cell(html, " class=\"quiet\"", parameter->source);
        ps_svg_add(html, "</tr>\n");
    }
    ps_svg_add(html, "</tbody></table></div>\n</details>\n");
}
