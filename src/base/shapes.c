// base/shapes.c - values alone, then the operands of every operator: a table of kinds, and a
// function for the shapes.
#include "base/shapes.h"

#include "base/attributes.h"

ps_status ps_range_check(const char *what, uint32_t value, uint32_t lowest, uint32_t highest)
{
    return value >= lowest && value <= highest
               ? PS_OK
               : ps_fail(PS_INVALID, "%s %u, %u to %u would be right", what, value, lowest,
                         highest);
}

void ps_share_columns(uint32_t columns, uint32_t unit, uint32_t rank, uint32_t ranks,
                      uint32_t *begin, uint32_t *end)
{
    const uint64_t units = ps_divide_up(columns, unit);
    const uint64_t first = units * rank / ranks * unit;
    const uint64_t last = units * (rank + 1) / ranks * unit;
    *begin = (uint32_t)(first < columns ? first : columns);
    *end = (uint32_t)(last < columns ? last : columns);
}

void ps_share_rows(uint32_t rows, uint32_t rank, uint32_t ranks, uint32_t *begin, uint32_t *end)
{
    const uint32_t parts = ranks == 0 ? 1 : ranks;
    const uint32_t least = rows / parts;
    const uint32_t more = rows % parts; // ranks with one row more
    *begin = least * rank + (rank < more ? rank : more);
    *end = *begin + least + (rank < more);
}

static ps_status check_head_dim(uint32_t head_dim)
{
    return head_dim > 0 && head_dim <= PS_HEAD_DIM_MAX && head_dim % PS_HEAD_DIM_UNIT == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "head_dim=%u, a multiple of %u up to %u would be right",
                         head_dim, PS_HEAD_DIM_UNIT, PS_HEAD_DIM_MAX);
}

static ps_status check_weight(const ps_value *value)
{
    if (value->dtype == PS_DTYPE_I32 || value->dtype == PS_DTYPE_Q8_ROW) {
        return ps_fail(PS_INVALID, "weights cannot be %s", ps_dtype_get(value->dtype)->name);
    }
    PS_TRY(ps_range_check("rows", value->rows, 1, PS_COLUMNS_MAX));
    PS_TRY(ps_range_check("first row", value->row_first, 0, PS_COLUMNS_MAX - value->rows));
    PS_TRY(ps_range_check("first column", value->column_first, 0, PS_COLUMNS_MAX - value->columns));
    if (value->column_first % ps_dtype_get(value->dtype)->block_columns != 0) {
        return ps_fail(PS_INVALID, "a slice from column %u, a multiple of %u would be right for %s",
                       value->column_first, ps_dtype_get(value->dtype)->block_columns,
                       ps_dtype_get(value->dtype)->name);
    }
    return ps_range_check("experts", value->experts, 0, PS_EXPERTS_MAX);
}

static ps_status check_kv_dtype(ps_dtype dtype, uint32_t head_dim)
{
    if ((unsigned)dtype >= PS_DTYPE_COUNT) {
        return ps_fail(PS_INVALID, "dtype %d is unknown", (int)dtype);
    }
    const ps_dtype_info *format = ps_dtype_get(dtype);
    if (dtype != PS_DTYPE_F16 && dtype != PS_DTYPE_Q8_0 && !ps_dtype_is_planned_only(dtype)) {
        return ps_fail(PS_INVALID, "kv is %s, F16 or Q8_0 would be right, or to plan I8 or I4",
                       format->name);
    }
    return head_dim % format->block_columns == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "head_dim=%u, a multiple of %u would be right for kv in %s",
                         head_dim, format->block_columns, format->name);
}

static ps_status check_kv(const ps_value *value, uint32_t kv_groups)
{
    PS_TRY(check_kv_dtype(value->dtype, value->head_dim));
    PS_TRY(check_kv_dtype(value->v_dtype, value->head_dim));
    if (value->kv_group >= kv_groups) {
        return ps_fail(PS_INVALID, "group %u, but there are %u kv groups", value->kv_group,
                       kv_groups);
    }
    PS_TRY(check_head_dim(value->head_dim));
    return value->columns % value->head_dim == 0
               ? PS_OK
               : ps_fail(PS_INVALID, "%u columns, a multiple of head_dim=%u would be right",
                         value->columns, value->head_dim);
}

static ps_status check_view(const ps_value *view, const ps_value *base)
{
    if (base->kind != PS_VALUE_ACTIVATION || base->alias_of != PS_NO_VALUE) {
        return ps_fail(PS_INVALID, "view of '%s', which is no activation with its own storage",
                       base->name);
    }
    if (base->dtype != PS_DTYPE_F32 || view->dtype != PS_DTYPE_F32) {
        return ps_fail(PS_INVALID, "views and what they view must be F32");
    }
    if (base->row_kind != view->row_kind || base->row_multiplier != view->row_multiplier) {
        return ps_fail(PS_INVALID, "a view must have the rows of '%s'", base->name);
    }
    const uint64_t end = (uint64_t)view->alias_column + view->columns;
    return end <= base->columns
               ? PS_OK
               : ps_fail(PS_INVALID, "view of columns %u to %llu of '%s', which has %u",
                         view->alias_column, (unsigned long long)end, base->name, base->columns);
}

static ps_status check_activation(const ps_value *value, const ps_value *base)
{
    if (value->dtype != PS_DTYPE_F32 && value->dtype != PS_DTYPE_Q8_ROW) {
        return ps_fail(PS_INVALID, "activation is %s, F32 or q8_row would be right",
                       ps_dtype_get(value->dtype)->name);
    }
    if ((unsigned)value->row_kind >= PS_ROWS_COUNT) {
        return ps_fail(PS_INVALID, "row kind %d is unknown", (int)value->row_kind);
    }
    PS_TRY(ps_range_check("row multiplier", value->row_multiplier, 1, PS_EXPERTS_MAX));
    return base == NULL ? PS_OK : check_view(value, base);
}

ps_status ps_value_check(const ps_value *value, const ps_value *base, uint32_t kv_groups)
{
    if ((unsigned)value->dtype >= PS_DTYPE_COUNT) {
        return ps_fail(PS_INVALID, "dtype %d is unknown", (int)value->dtype);
    }
    PS_TRY(ps_range_check("columns", value->columns, 1, PS_COLUMNS_MAX));
    const ps_dtype_info *format = ps_dtype_get(value->dtype);
    if (value->columns % format->block_columns != 0) {
        return ps_fail(PS_INVALID, "%u columns, a multiple of %u would be right for %s",
                       value->columns, format->block_columns, format->name);
    }
    if (value->kind != PS_VALUE_ACTIVATION && base != NULL) {
        return ps_fail(PS_INVALID, "only activations are views");
    }
    switch (value->kind) {
    case PS_VALUE_WEIGHT:
        return check_weight(value);
    case PS_VALUE_KV:
        return check_kv(value, kv_groups);
    case PS_VALUE_ACTIVATION:
        return check_activation(value, base);
    default:
        return ps_fail(PS_INVALID, "value kind %d is unknown", (int)value->kind);
    }
}

ps_status ps_value_check_output(const ps_value *value, uint32_t vocabulary)
{
    return value->kind == PS_VALUE_ACTIVATION && value->dtype == PS_DTYPE_F32 &&
                   value->row_kind == PS_ROWS_LOGITS && value->row_multiplier == 1 &&
                   value->columns == vocabulary
               ? PS_OK
               : ps_fail(PS_INVALID, "output '%s' must be an F32 activation [L, %u]", value->name,
                         vocabulary);
}

// What one operand may be.
typedef enum operand_kind {
    NONE,
    ROW,    // activation, F32
    ROW_Q,  // activation, F32 or Q8_ROW
    Q8,     // activation, Q8_ROW
    VECTOR, // weight [1, n], F32: the vector kernels read nothing else
    MATRIX, // weight [rows, columns]
    STACK,  // weight [experts, rows, columns]
    CACHE,  // kv
    STORED, // weight [rows, columns] or [experts, rows, columns], or kv
} operand_kind;

static const char *const KIND_TEXT[] = {
    [NONE] = "nothing",
    [ROW] = "an F32 activation",
    [ROW_Q] = "an activation, F32 or q8_row",
    [Q8] = "a q8_row activation",
    [VECTOR] = "an F32 weight [1, n]",
    [MATRIX] = "a weight [rows, columns]",
    [STACK] = "a weight [experts, rows, columns]",
    [CACHE] = "a kv",
    [STORED] = "a weight or a kv",
};

// The operands of one operator.
typedef struct operands {
    const ps_op_attributes *attributes;
    const ps_value *in[PS_OP_INPUTS_MAX];
    uint32_t count;
    const ps_value *out; // NULL for operators without one
} operands;

static bool is_kind(const ps_value *value, operand_kind kind)
{
    const bool is_row = value->kind == PS_VALUE_ACTIVATION;
    const bool is_weight = value->kind == PS_VALUE_WEIGHT;
    switch (kind) {
    case ROW:
        return is_row && value->dtype == PS_DTYPE_F32;
    case ROW_Q:
        return is_row;
    case Q8:
        return is_row && value->dtype == PS_DTYPE_Q8_ROW;
    case VECTOR:
        return is_weight && value->experts == 0 && value->rows == 1 && value->dtype == PS_DTYPE_F32;
    case MATRIX:
        return is_weight && value->experts == 0;
    case STACK:
        return is_weight && value->experts > 0;
    case CACHE:
        return value->kind == PS_VALUE_KV;
    case STORED:
        return value->kind != PS_VALUE_ACTIVATION;
    default:
        return false;
    }
}

static ps_status check_columns(const ps_value *value, uint64_t columns)
{
    return value->columns == columns
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' has %u columns, %llu would be right", value->name,
                         value->columns, (unsigned long long)columns);
}

static ps_status check_rows(const ps_value *value, ps_rows kind, uint32_t multiplier)
{
    if (value->row_kind == kind && value->row_multiplier == multiplier) {
        return PS_OK;
    }
    return ps_fail(PS_INVALID, "'%s' has %u%s rows, %u%s would be right", value->name,
                   value->row_multiplier, ps_rows_name(value->row_kind), multiplier,
                   ps_rows_name(kind));
}

static ps_status check_step_rows(const ps_value *value)
{
    return check_rows(value, PS_ROWS_STEP, 1);
}

static ps_status check_rows_like(const ps_value *value, const ps_value *model)
{
    return check_rows(value, model->row_kind, model->row_multiplier);
}

static ps_status check_like(const ps_value *value, const ps_value *model)
{
    PS_TRY(check_rows_like(value, model));
    return check_columns(value, model->columns);
}

static ps_status check_attribute(const char *name, uint32_t value, uint64_t right)
{
    return value == right ? PS_OK
                          : ps_fail(PS_INVALID, "%s=%u, %llu would be right", name, value,
                                    (unsigned long long)right);
}

// For attributes that the operands determine: 0 is as good.
static ps_status check_if_given(const char *name, uint32_t value, uint64_t right)
{
    return value == 0 ? PS_OK : check_attribute(name, value, right);
}

static ps_status check_positive(const char *name, float value)
{
    return value > 0
               ? PS_OK
               : ps_fail(PS_INVALID, "%s=%g, more than 0 would be right", name, (double)value);
}

static ps_status check_not_negative(const char *name, float value)
{
    return value >= 0 ? PS_OK
                      : ps_fail(PS_INVALID, "%s=%g, 0 or more would be right", name, (double)value);
}

// A matrix that x is multiplied with. F32 rows go with every format (quantising is made explicit by
// a pass), quantised rows with quantised weights only.
static ps_status check_product(const ps_value *x, const ps_value *weight)
{
    if (x->dtype == PS_DTYPE_Q8_ROW && !ps_dtype_is_quantised(weight->dtype)) {
        return ps_fail(PS_INVALID, "'%s' is q8_row but '%s' is %s, F32 rows would be right",
                       x->name, weight->name, ps_dtype_get(weight->dtype)->name);
    }
    return weight->columns == x->columns
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' has %u columns, as many as '%s' (%u) would be right",
                         weight->name, weight->columns, x->name, x->columns);
}

static ps_status check_weight_rows(const ps_value *weight, uint32_t rows)
{
    return weight->rows == rows ? PS_OK
                                : ps_fail(PS_INVALID, "'%s' has %u rows, %u would be right",
                                          weight->name, weight->rows, rows);
}

static ps_status check_embed(const operands *o)
{
    PS_TRY(check_step_rows(o->out));
    return check_columns(o->out, o->in[0]->columns);
}

static ps_status check_rms_norm(const operands *o)
{
    PS_TRY(check_positive("eps", o->attributes->eps));
    if (o->in[0]->columns % o->in[1]->columns != 0) {
        return ps_fail(PS_INVALID, "the %u columns of '%s' do not divide the %u of '%s'",
                       o->in[1]->columns, o->in[1]->name, o->in[0]->columns, o->in[0]->name);
    }
    return check_like(o->out, o->in[0]);
}

static ps_status check_norm_quantise(const operands *o)
{
    PS_TRY(check_columns(o->in[1], o->in[0]->columns));
    return check_rms_norm(o);
}

static ps_status check_out_like_in(const operands *o)
{
    return check_like(o->out, o->in[0]);
}

static ps_status check_linear(const operands *o)
{
    uint64_t outputs = 0;
    for (uint32_t i = 1; i < o->count; i++) {
        PS_TRY(check_product(o->in[0], o->in[i]));
        outputs += o->in[i]->rows;
    }
    PS_TRY(check_columns(o->out, outputs));
    if (o->attributes->unit > outputs) {
        return ps_fail(PS_INVALID, "unit=%u, at most %llu would be right", o->attributes->unit,
                       (unsigned long long)outputs);
    }
    return check_rows_like(o->out, o->in[0]);
}

static ps_status check_add_bias(const operands *o)
{
    PS_TRY(check_columns(o->in[1], o->in[0]->columns));
    return check_like(o->out, o->in[0]);
}

static ps_status check_gate_up(const operands *o)
{
    PS_TRY(check_product(o->in[0], o->in[1]));
    PS_TRY(check_product(o->in[0], o->in[2]));
    PS_TRY(check_weight_rows(o->in[2], o->in[1]->rows));
    PS_TRY(check_columns(o->out, o->in[1]->rows));
    return check_rows_like(o->out, o->in[0]);
}

static ps_status check_pair(const operands *o)
{
    PS_TRY(check_like(o->in[1], o->in[0]));
    return check_like(o->out, o->in[0]);
}

static ps_status check_softcap(const operands *o)
{
    PS_TRY(check_positive("softcap", o->attributes->softcap));
    return check_out_like_in(o);
}

static ps_status check_rope_table(const operands *o)
{
    const uint32_t rotary_dim = o->attributes->rotary_dim;
    if (rotary_dim == 0 || rotary_dim % 2 != 0 || rotary_dim > PS_HEAD_DIM_MAX) {
        return ps_fail(PS_INVALID, "rotary_dim=%u, an even number up to %u would be right",
                       rotary_dim, PS_HEAD_DIM_MAX);
    }
    PS_TRY(check_positive("freq_base", o->attributes->freq_base));
    PS_TRY(check_not_negative("freq_scale", o->attributes->freq_scale));
    if (o->count == 1) {
        PS_TRY(check_columns(o->in[0], rotary_dim / 2));
    }
    PS_TRY(check_step_rows(o->out));
    return check_columns(o->out, rotary_dim);
}

// Columns are whole heads; gives how many.
static ps_status count_heads(const ps_value *value, uint32_t head_dim, uint32_t *out_heads)
{
    PS_TRY(check_head_dim(head_dim));
    if (value->columns % head_dim != 0) {
        return ps_fail(PS_INVALID, "'%s' has %u columns, a multiple of head_dim=%u would be right",
                       value->name, value->columns, head_dim);
    }
    *out_heads = value->columns / head_dim;
    return PS_OK;
}

static ps_status check_rope(const operands *o)
{
    uint32_t heads = 0;
    const ps_value *table = o->in[1];
    PS_TRY(count_heads(o->in[0], o->attributes->head_dim, &heads));
    PS_TRY(check_if_given("heads", o->attributes->heads, heads));
    PS_TRY(check_if_given("rotary_dim", o->attributes->rotary_dim, table->columns));
    if (table->columns % 2 != 0 || table->columns > o->attributes->head_dim) {
        return ps_fail(PS_INVALID,
                       "'%s' has %u columns, an even number up to head_dim=%u would be right",
                       table->name, table->columns, o->attributes->head_dim);
    }
    PS_TRY(check_step_rows(o->in[0]));
    PS_TRY(check_step_rows(table));
    return check_like(o->out, o->in[0]);
}

static ps_status check_kv_write(const operands *o)
{
    const ps_value *kv = o->in[2];
    PS_TRY(check_step_rows(o->in[0]));
    PS_TRY(check_columns(o->in[0], kv->columns));
    PS_TRY(check_like(o->in[1], o->in[0]));
    PS_TRY(check_if_given("head_dim", o->attributes->head_dim, kv->head_dim));
    return check_if_given("kv_heads", o->attributes->kv_heads, kv->columns / kv->head_dim);
}

// Every KV head has its query heads; without whole groups the first and the last have fewer.
static ps_status check_groups(const ps_op_attributes *a)
{
    if (a->group == 0) {
        PS_TRY(check_if_given("head_offset", a->head_offset, 0));
        return a->heads % a->kv_heads == 0
                   ? PS_OK
                   : ps_fail(PS_INVALID, "heads=%u, a multiple of kv_heads=%u would be right",
                             a->heads, a->kv_heads);
    }
    PS_TRY(ps_range_check("group", a->group, 1, PS_COLUMNS_MAX));
    PS_TRY(ps_range_check("head_offset", a->head_offset, 0, a->group - 1));
    return check_attribute("kv_heads", a->kv_heads,
                           ps_divide_up((uint64_t)a->head_offset + a->heads, a->group));
}

static ps_status check_attention_operands(const operands *o)
{
    const ps_op_attributes *attributes = o->attributes;
    const ps_value *kv = o->in[1];
    uint32_t heads = 0;
    PS_TRY(check_attribute("head_dim", attributes->head_dim, kv->head_dim));
    PS_TRY(count_heads(o->in[0], kv->head_dim, &heads));
    PS_TRY(check_attribute("heads", attributes->heads, heads));
    PS_TRY(check_attribute("kv_heads", attributes->kv_heads, kv->columns / kv->head_dim));
    PS_TRY(check_groups(attributes));
    PS_TRY(check_not_negative("softcap", attributes->softcap));
    PS_TRY(check_positive("scale", attributes->scale));
    PS_TRY(ps_range_check("context_shards", attributes->context_shards, 0, PS_RANKS_MAX));
    PS_TRY(check_step_rows(o->in[0]));
    return check_step_rows(o->out);
}

static ps_status check_attention(const operands *o)
{
    PS_TRY(check_attention_operands(o));
    return check_columns(o->out, o->in[0]->columns);
}

// A chunk of partial results holds head_dim values, a maximum and a sum for every head.
static ps_status check_partial(const ps_value *partial, uint32_t heads, uint32_t head_dim)
{
    const uint64_t chunk = (uint64_t)heads * (head_dim + 2);
    return chunk > 0 && partial->columns % chunk == 0
               ? PS_OK
               : ps_fail(
                     PS_INVALID,
                     "'%s' has %u columns, a multiple of heads * (head_dim + 2) = %llu would be "
                     "right",
                     partial->name, partial->columns, (unsigned long long)chunk);
}

static ps_status check_attention_partial(const operands *o)
{
    PS_TRY(check_attention_operands(o));
    return check_partial(o->out, o->attributes->heads, o->attributes->head_dim);
}

static ps_status check_attention_merge(const operands *o)
{
    const uint32_t head_dim = o->in[1]->head_dim;
    uint32_t heads = 0;
    PS_TRY(count_heads(o->out, head_dim, &heads));
    PS_TRY(check_if_given("heads", o->attributes->heads, heads));
    PS_TRY(check_if_given("head_dim", o->attributes->head_dim, head_dim));
    PS_TRY(check_partial(o->in[0], heads, head_dim));
    PS_TRY(check_step_rows(o->in[0]));
    return check_step_rows(o->out);
}

static ps_status check_select_logits(const operands *o)
{
    PS_TRY(check_step_rows(o->in[0]));
    PS_TRY(check_rows(o->out, PS_ROWS_LOGITS, 1));
    return check_columns(o->out, o->in[0]->columns);
}

static ps_status check_route(const operands *o)
{
    const uint32_t experts = o->attributes->experts;
    const uint32_t top_k = o->attributes->top_k;
    if (experts == 0 || experts > PS_EXPERTS_MAX) {
        return ps_fail(PS_INVALID, "experts=%u, 1 to %u would be right", experts, PS_EXPERTS_MAX);
    }
    if (top_k == 0 || top_k > experts) {
        return ps_fail(PS_INVALID, "top_k=%u, 1 to experts=%u would be right", top_k, experts);
    }
    PS_TRY(check_columns(o->in[0], experts));
    PS_TRY(check_columns(o->out, (uint64_t)top_k * 2));
    PS_TRY(check_step_rows(o->in[0]));
    return check_step_rows(o->out);
}

// The routing that an expert operator follows; gives its experts per row.
static ps_status check_routing(const operands *o, const ps_value *route, uint32_t *out_top_k)
{
    PS_TRY(check_step_rows(route));
    if (route->columns % 2 != 0) {
        return ps_fail(PS_INVALID, "'%s' has %u columns, 2 * top_k would be right", route->name,
                       route->columns);
    }
    *out_top_k = route->columns / 2;
    return check_attribute("top_k", o->attributes->top_k, *out_top_k);
}

static ps_status check_stack(const operands *o, const ps_value *stack, uint32_t top_k)
{
    PS_TRY(check_attribute("experts", o->attributes->experts, stack->experts));
    if (top_k > stack->experts) {
        return ps_fail(PS_INVALID, "'%s' has %u experts but each row asks for %u", stack->name,
                       stack->experts, top_k);
    }
    return check_product(o->in[0], stack);
}

// Rows of x are those of the step, or (for the down projection) one for each pair already.
static ps_status check_expert_linear(const operands *o)
{
    uint32_t top_k = 0;
    PS_TRY(check_routing(o, o->in[1], &top_k));
    PS_TRY(check_stack(o, o->in[2], top_k));
    PS_TRY(check_rows(o->in[0], PS_ROWS_STEP, o->in[0]->row_multiplier == 1 ? 1 : top_k));
    PS_TRY(check_rows(o->out, PS_ROWS_STEP, top_k));
    return check_columns(o->out, o->in[2]->rows);
}

static ps_status check_expert_gate_up(const operands *o)
{
    uint32_t top_k = 0;
    PS_TRY(check_routing(o, o->in[1], &top_k));
    PS_TRY(check_stack(o, o->in[2], top_k));
    PS_TRY(check_stack(o, o->in[3], top_k));
    PS_TRY(check_weight_rows(o->in[3], o->in[2]->rows));
    PS_TRY(check_step_rows(o->in[0]));
    PS_TRY(check_rows(o->out, PS_ROWS_STEP, top_k));
    return check_columns(o->out, o->in[2]->rows);
}

static ps_status check_expert_ffn(const operands *o)
{
    uint32_t top_k = 0;
    const ps_value *gate = o->in[2];
    const ps_value *down = o->in[4];
    PS_TRY(check_routing(o, o->in[1], &top_k));
    PS_TRY(check_stack(o, gate, top_k));
    PS_TRY(check_stack(o, o->in[3], top_k));
    PS_TRY(check_weight_rows(o->in[3], gate->rows));
    PS_TRY(check_attribute("experts", o->attributes->experts, down->experts));
    if (down->columns != gate->rows) {
        return ps_fail(PS_INVALID, "'%s' has %u columns for %u rows of '%s'", down->name,
                       down->columns, gate->rows, gate->name);
    }
    PS_TRY(check_step_rows(o->in[0]));
    PS_TRY(check_rows(o->out, PS_ROWS_STEP, top_k));
    return check_columns(o->out, down->rows);
}

static ps_status check_expert_expect(const operands *o)
{
    uint32_t top_k = 0;
    PS_TRY(check_routing(o, o->in[0], &top_k));
    return check_attribute("experts", o->attributes->experts, o->in[1]->experts);
}

static ps_status check_expert_sum(const operands *o)
{
    uint32_t top_k = 0;
    PS_TRY(check_routing(o, o->in[1], &top_k));
    PS_TRY(check_rows(o->in[0], PS_ROWS_STEP, top_k));
    PS_TRY(check_step_rows(o->out));
    return check_columns(o->out, o->in[0]->columns);
}

static ps_status check_ranks(const ps_op_attributes *attributes)
{
    PS_TRY(ps_range_check("ranks", attributes->ranks, 1, PS_RANKS_MAX));
    return ps_range_check("rank", attributes->rank, 0, attributes->ranks - 1);
}

static ps_status check_all_reduce(const operands *o)
{
    PS_TRY(check_ranks(o->attributes));
    return check_like(o->out, o->in[0]);
}

static ps_status check_linear_all_reduce(const operands *o)
{
    PS_TRY(check_ranks(o->attributes));
    PS_TRY(ps_range_check("chunks", o->attributes->chunks, 1, PS_COMM_CHUNKS_MAX));
    return check_linear(o);
}

static ps_status check_all_gather(const operands *o)
{
    const ps_op_attributes *a = o->attributes;
    uint32_t begin = 0;
    uint32_t end = 0;
    PS_TRY(check_ranks(a));
    PS_TRY(ps_range_check("unit", a->unit, 1, PS_COLUMNS_MAX));
    ps_share_columns(o->out->columns, a->unit, a->rank, a->ranks, &begin, &end);
    PS_TRY(check_columns(o->in[0], end - begin));
    return check_rows_like(o->out, o->in[0]);
}

static ps_status check_all_gather_best(const operands *o)
{
    PS_TRY(ps_range_check("top_k", o->attributes->top_k, 1, o->out->columns));
    return check_all_gather(o);
}

static ps_status check_own_rows(const operands *o)
{
    PS_TRY(check_step_rows(o->in[0]));
    PS_TRY(check_rows(o->out, PS_ROWS_OWN, 1));
    return check_columns(o->out, o->in[0]->columns);
}

static ps_status check_reduce_scatter(const operands *o)
{
    PS_TRY(check_ranks(o->attributes));
    return check_own_rows(o);
}

static ps_status check_all_gather_rows(const operands *o)
{
    const ps_rows kind = o->out->row_kind == PS_ROWS_LOGITS ? PS_ROWS_LOGITS : PS_ROWS_STEP;
    PS_TRY(check_ranks(o->attributes));
    PS_TRY(check_rows(o->in[0], PS_ROWS_OWN, 1));
    PS_TRY(check_rows(o->out, kind, 1));
    PS_TRY(check_columns(o->out, o->in[0]->columns));
    return o->out->dtype == o->in[0]->dtype
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' is %s, %s as '%s' would be right", o->out->name,
                         ps_dtype_get(o->out->dtype)->name, ps_dtype_get(o->in[0]->dtype)->name,
                         o->in[0]->name);
}

// What it moves is only ever read.
static ps_status check_prefetch(const operands *o)
{
    (void)o;
    return PS_OK;
}

typedef struct operand_rule {
    operand_kind in[PS_OP_INPUTS_MAX];
    operand_kind out;
    ps_status (*check)(const operands *);
} operand_rule;

static const operand_rule RULES[PS_OP_COUNT] = {
    [PS_OP_EMBED] = {{MATRIX}, ROW, check_embed},
    [PS_OP_RMS_NORM] = {{ROW, VECTOR}, ROW, check_rms_norm},
    [PS_OP_QUANTISE] = {{ROW}, Q8, check_out_like_in},
    [PS_OP_NORM_QUANTISE] = {{ROW, VECTOR}, Q8, check_norm_quantise},
    [PS_OP_LINEAR] = {{ROW_Q, MATRIX, MATRIX, MATRIX}, ROW, check_linear},
    [PS_OP_ADD_BIAS] = {{ROW, VECTOR}, ROW, check_add_bias},
    [PS_OP_GATE_UP] = {{ROW_Q, MATRIX, MATRIX}, ROW_Q, check_gate_up},
    [PS_OP_ADD] = {{ROW, ROW}, ROW, check_pair},
    [PS_OP_ACT_MUL] = {{ROW, ROW}, ROW, check_pair},
    [PS_OP_SOFTCAP] = {{ROW}, ROW, check_softcap},
    [PS_OP_ROPE_TABLE] = {{VECTOR}, ROW, check_rope_table},
    [PS_OP_ROPE] = {{ROW, ROW}, ROW, check_rope},
    [PS_OP_KV_WRITE] = {{ROW, ROW, CACHE}, NONE, check_kv_write},
    [PS_OP_ATTENTION] = {{ROW, CACHE}, ROW, check_attention},
    [PS_OP_ATTENTION_PARTIAL] = {{ROW, CACHE}, ROW, check_attention_partial},
    [PS_OP_ATTENTION_MERGE] = {{ROW, CACHE}, ROW, check_attention_merge},
    [PS_OP_SELECT_LOGITS] = {{ROW}, ROW, check_select_logits},
    [PS_OP_ROUTE] = {{ROW}, ROW, check_route},
    [PS_OP_EXPERT_LINEAR] = {{ROW_Q, ROW, STACK}, ROW, check_expert_linear},
    [PS_OP_EXPERT_GATE_UP] = {{ROW_Q, ROW, STACK, STACK}, ROW_Q, check_expert_gate_up},
    [PS_OP_EXPERT_FFN] = {{ROW_Q, ROW, STACK, STACK, STACK}, ROW, check_expert_ffn},
    [PS_OP_EXPERT_EXPECT] = {{ROW, STACK}, NONE, check_expert_expect},
    [PS_OP_ALL_REDUCE] = {{ROW}, ROW, check_all_reduce},
    [PS_OP_LINEAR_ALL_REDUCE] = {{ROW_Q, MATRIX}, ROW, check_linear_all_reduce},
    [PS_OP_ALL_GATHER] = {{ROW}, ROW, check_all_gather},
    [PS_OP_ALL_GATHER_BEST] = {{ROW}, ROW, check_all_gather_best},
    [PS_OP_OWN_ROWS] = {{ROW}, ROW, check_own_rows},
    [PS_OP_REDUCE_SCATTER] = {{ROW}, ROW, check_reduce_scatter},
    [PS_OP_ALL_GATHER_ROWS] = {{ROW_Q}, ROW_Q, check_all_gather_rows},
    [PS_OP_PREFETCH] = {{STORED}, NONE, check_prefetch},
    [PS_OP_EXPERT_SUM] = {{ROW, ROW}, ROW, check_expert_sum},
};

static ps_status check_kind(const ps_value *value, operand_kind kind)
{
    return is_kind(value, kind)
               ? PS_OK
               : ps_fail(PS_INVALID, "'%s' should be %s", value->name, KIND_TEXT[kind]);
}

ps_status ps_operand_counts_check(ps_op op, uint32_t inputs, bool has_output)
{
    if ((unsigned)op >= PS_OP_COUNT) {
        return ps_fail(PS_INVALID, "operator %d is unknown", (int)op);
    }
    const ps_op_info *info = ps_op_get(op);
    if (inputs < info->inputs_min || inputs > info->inputs_max) {
        return ps_fail(PS_INVALID, "%u operands, %u to %u would be right", inputs, info->inputs_min,
                       info->inputs_max);
    }
    return has_output == (info->outputs == 1)
               ? PS_OK
               : ps_fail(PS_INVALID, has_output ? "has no output" : "an output is missing");
}

ps_status ps_operands_check(ps_op op, const ps_op_attributes *attributes,
                            const ps_value *const *inputs, uint32_t count, const ps_value *output)
{
    const operand_rule *rule = &RULES[op];
    ps_assert(rule->check != NULL && count <= PS_OP_INPUTS_MAX);
    PS_TRY(ps_attributes_check(attributes));
    operands o = {.attributes = attributes, .count = count, .out = output};
    for (uint32_t i = 0; i < count; i++) {
        o.in[i] = inputs[i];
        PS_TRY(check_kind(o.in[i], rule->in[i]));
    }
    if (output != NULL) {
        PS_TRY(check_kind(output, rule->out));
    }
    return rule->check(&o);
}
