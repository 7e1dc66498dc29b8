// text/jinja_filter_internal.h - the filters on sequences, for the table in jinja_filter.c.
#ifndef PS_TEXT_JINJA_FILTER_INTERNAL_H
#define PS_TEXT_JINJA_FILTER_INTERNAL_H

#include "text/jinja_run.h"

typedef ps_status ps_jinja_apply(ps_jinja_run *run, const ps_jinja_value *slots,
                                 ps_jinja_value *out);
typedef ps_status ps_jinja_apply_any(ps_jinja_run *run, const ps_jinja_value *subject,
                                     const ps_jinja_arguments *arguments, ps_jinja_value *out);

ps_jinja_apply ps_jinja_filter_first;
ps_jinja_apply ps_jinja_filter_last;
ps_jinja_apply ps_jinja_filter_list;
ps_jinja_apply ps_jinja_filter_join;
ps_jinja_apply ps_jinja_filter_sort;
ps_jinja_apply ps_jinja_filter_unique;
ps_jinja_apply ps_jinja_filter_reverse;
ps_jinja_apply ps_jinja_filter_sum;
ps_jinja_apply ps_jinja_filter_min;
ps_jinja_apply ps_jinja_filter_max;
ps_jinja_apply ps_jinja_filter_items;
ps_jinja_apply ps_jinja_filter_dictsort;
ps_jinja_apply_any ps_jinja_filter_map;
ps_jinja_apply_any ps_jinja_filter_select;
ps_jinja_apply_any ps_jinja_filter_reject;
ps_jinja_apply_any ps_jinja_filter_selectattr;
ps_jinja_apply_any ps_jinja_filter_rejectattr;

// len() of Python. PS_INVALID for what has none.
PS_MUST_USE ps_status ps_jinja_length(const ps_jinja_budget *budget, const ps_jinja_value *value,
                                      int64_t *out);
// A (key, value) tuple for every entry of a dict.
PS_MUST_USE ps_status ps_jinja_dict_items(ps_jinja_budget *budget, const ps_jinja_dict *dict,
                                          ps_jinja_flavour flavour, ps_jinja_value *out);

#endif
