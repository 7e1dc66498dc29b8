// ctest-labels: file
// Goal: ps_graph_verify and ps_graph_parse refuse what they should, and say what is wrong.
// Method: a graph with every operator is accepted; then one place of its text is changed at a time,
// and the message must hold the words that name that fault. What text cannot say is set in memory.
#include "ir/graph_text_test.h"

#include <math.h>

#define GRAPH_FILE "test/ir/all_ops.graph"

typedef struct fault {
    const char *find; // stands once in the file
    const char *replace;
    const char *message; // part of it
} fault;

static const fault FAULTS[] = {
    // syntax and names
    {"= rms_norm %q,", "= rms_nrom %q,",
     "line 73: 'rms_nrom' is not a kind of value or an operator; the nearest is 'rms_norm'"},
    {"= weight F32 [8, 256]", "= wieght F32 [8, 256]", "the nearest is 'weight'"},
    {"vocabulary 1000", "vocabluary 1000",
     "line 2: 'vocabluary' is not a heading or an operator; the nearest is 'vocabulary'"},
    {"weight Q5_K", "weight Q5K", "'Q5K' is not a number format; the nearest is 'Q5_K'"},
    {"site=attn.qkv", "site=attn.qvk",
     "'attn.qvk' is not a value of 'site'; the nearest is 'attn.qkv'"},
    {"activation=gelu", "activation=glu", "the nearest is 'gelu'"},
    {"gating=softmax_selected", "gating=softmax_select", "the nearest is 'softmax_selected'"},
    {"unit=64", "units=64", "'units' is not an attribute; the nearest is 'unit'"},
    {"unit=64", "unit=64 unit=64", "'unit' is given twice"},
    {"unit=64", "unit=-64", "expected a whole number at '-64"},
    {"unit=64", "unit=4294967296", "4294967296 is too large, at most 4294967295"},
    {"unit=64}", "unit=64", "expected an attribute at the end of the line"},
    {"softcap=50", "softcap=inf", "expected a number at 'inf"},
    {"softcap=50", "softcap=1e999", "'1e999' is not a finite number"},
    {"{softcap=30}", "{softcap=30} 7", "expected the end of the line at '7'"},
    {"%dp = linear %h", "%dp = linear %hh", "'hh' is not defined above"},
    {"%dp = linear %h", "%dd = linear %h", "'dd' is not defined above"},
    {"%d = activation F32 [T, 256]", "%h = activation F32 [T, 256]", "two values named 'h'"},
    {"%d = activation F32 [T, 256]", "%d = activation F32 [S, 256]", "'S' is not a kind of rows"},
    {"%d = activation F32 [T, 256]", "%d = activation F32 [T, 256] outptu",
     "expected the end of the line"},
    {"%router.weight = weight F32 [8, 256]", "%router.weight = weight F32 [8]",
     "a weight is [rows, columns]"},
    {"%router.weight = weight F32 [8, 256]", "%\"\" = weight F32 [8, 256]",
     "name of 0 bytes, 1 to 255"},
    {"{group=1 head_dim=64}", "{gorup=1 head_dim=64}", "the nearest is 'group'"},
    {"%\"odd \\\"name\\\" # 1\" = weight", "%\"odd = weight", "a name lacks its closing quote"},
    {"= embed %token_embd.weight", "= embed %norm, %norm, %norm, %norm, %norm, %norm",
     "more than 5 operands"},
    {"kv_group window=0",
     "kv_group window=0\nkv_group window=0\nkv_group window=0\nkv_group window=0",
     "more than 4 kv groups"},

    // values
    {"vocabulary 1000", "vocabulary 0", "vocabulary 0, 1 to 16777216"},
    {"weight Q4_0 [512, 256]\n%down", "weight Q4_0 [0, 256]\n%down", "value 'up.weight': rows 0"},
    {"weight Q5_K [256, 512]", "weight Q5_K [256, 16777472]", "columns 16777472, 1 to 16777216"},
    {"weight Q5_K [256, 512]", "weight Q5_K [256, 480]",
     "480 columns, a multiple of 256 would be right for Q5_K"},
    {"%gates.weight = weight Q4_K [8,", "%gates.weight = weight Q4_K [4097,", "experts 4097"},
    {"weight BF16", "weight I32", "weights cannot be I32"},
    {"weight BF16", "weight q8_row", "weights cannot be q8_row"},
    {"kv F16 [128] {group=1", "kv F32 [128] {group=1", "kv is F32, F16 or Q8_0 would be right"},
    {"kv F16 [128] {group=1", "kv Q8_0 Q4_0 [128] {group=1", "kv is Q4_0, F16 or Q8_0"},
    {"kv F16 [128] {group=1 head_dim=64}", "kv Q8_0 F16 [128] {group=1 head_dim=16}",
     "head_dim=16, a multiple of 32 would be right for kv in Q8_0"},
    {"kv F16 [128] {group=1 head_dim=64}", "kv F16 Q8_0 [128] {group=1 head_dim=16}",
     "head_dim=16, a multiple of 32 would be right for kv in Q8_0"},
    {"{group=1 head_dim=64}", "{group=2 head_dim=64}",
     "value 'kv.2': group 2, but there are 2 kv groups"},
    {"{group=1 head_dim=64}", "{group=1 head_dim=0}", "head_dim=0, a multiple of 8 up to 512"},
    {"{group=1 head_dim=64}", "{group=1 head_dim=12}", "head_dim=12, a multiple of 8"},
    {"{group=1 head_dim=64}", "{group=1 head_dim=520}", "head_dim=520, a multiple of 8"},
    {"{group=1 head_dim=64}", "{group=1 head_dim=48}", "128 columns, a multiple of head_dim=48"},
    {"%eh = activation q8_row [2T", "%eh = activation q8_row [0T", "row multiplier 0"},
    {"%eh = activation q8_row", "%eh = activation F16", "activation is F16, F32 or q8_row"},
    {"%n3 = activation q8_row [T, 256]", "%n3 = activation q8_row [T, 250]",
     "250 columns, a multiple of 32"},
    {"{of=%qkv column=384}", "{of=%qkv column=385}",
     "value 'v': view of columns 385 to 513 of 'qkv', which has 512"},
    {"{of=%qkv column=384}", "{of=%q column=0}",
     "view of 'q', which is no activation with its own storage"},
    {"{of=%qkv column=384}", "{of=%norm column=0}", "view of 'norm', which is no activation"},
    {"%v = activation F32 [T, 128]", "%v = activation F32 [L, 128]",
     "a view must have the rows of 'qkv'"},
    {"%v = activation F32 [T, 128]", "%v = activation F32 [2T, 128]",
     "a view must have the rows of 'qkv'"},
    {"%v = activation F32 [T, 128]", "%v = activation q8_row [T, 128]",
     "views and what they view must be F32"},
    {"%v = activation F32 [T, 128]", "%v = activation F32 [T, 0]", "value 'v': columns 0"},

    // operands: counts, order, writers, outputs
    {"= embed %token_embd.weight", "= embed", "node 0, embed to 'x': 0 operands, 1 to 1"},
    {"%r1 = add %d, %sum", "%r1 = add %d", "1 operands, 2 to 2"},
    {"%last = select_logits", "select_logits", "an output is missing"},
    {"kv_write %kr, %v, %kv.1", "%last = kv_write %kr, %v, %kv.1", "has no output"},
    {"%r1 = add %d, %sum", "%r1 = add %d, %r1",
     "node 22, add to 'r1': 'r1' is read before it is written"},
    {"%qn = rms_norm %q,", "%qn = rms_norm %a,", "'a' is read before it is written"},
    {"%r1 = add %d, %sum", "%n2 = add %d, %sum", "'n2' is written twice"},
    {"%qn = rms_norm %q,", "%q = rms_norm %q,", "'q' is a view; write 'qkv' in whole"},
    {"kv_write %kr, %v, %kv.2", "kv_write %kr, %v, %kv.1", "'kv.1' is written twice"},
    {"kv_write %kr, %v, %kv.2 {layer=2}\n", "", "'kv.2' is read before it is written"},
    {"[L, 1000] output", "[L, 1000]", "no value is the output"},
    {"\n%logits = all_gather %capped",
     "\n%other = activation F32 [L, 1000] output\n%other = all_gather %capped {unit=16 ranks=2}\n"
     "%logits = all_gather %capped",
     "'logits' and 'other' are both outputs"},
    {"vocabulary 1000", "vocabulary 1001", "output 'logits' must be an F32 activation [L, 1001]"},
    {"%logits = all_gather %capped {unit=16 ranks=2}\n", "", "output 'logits' is not written"},
    {"%d = activation F32 [T, 256]", "%d = activation F32 [T, 256] output",
     "output 'd' must be an F32 activation [L, 1000]"},

    // operands: kinds
    {"= embed %token_embd.weight", "= embed %gates.weight",
     "'gates.weight' should be a weight [rows, columns]"},
    {"= embed %token_embd.weight", "= embed %kv.1", "'kv.1' should be a weight [rows, columns]"},
    {"%r1 = add %d, %sum", "%r1 = add %d, %norm", "'norm' should be an F32 activation"},
    {"%r1 = add %d, %sum", "%r1 = add %h, %h", "'h' should be an F32 activation"},
    {"%n2 = rms_norm %bf, %norm", "%n2 = rms_norm %bf, %bf.weight",
     "'bf.weight' should be an F32 weight [1, n]"},
    {"%norm = weight F32", "%norm = weight F16", "'norm' should be an F32 weight [1, n]"},
    {"%q.bias = weight F32 [1, 256]", "%q.bias = weight F32 [1, 1, 256]",
     "'q.bias' should be an F32 weight [1, n]"},
    {"%n1 = activation q8_row", "%n1 = activation F32", "'n1' should be a q8_row activation"},
    {"%n3 = activation q8_row", "%n3 = activation F32", "'n3' should be a q8_row activation"},
    {"%d = activation F32", "%d = activation q8_row", "'d' should be an F32 activation"},
    {"%ed = activation F32", "%ed = activation q8_row", "'ed' should be an F32 activation"},
    {"%a = attention %qr, %kv.1", "%a = attention %qr, %qr", "'qr' should be a kv"},
    {"= expert_linear %eh, %route, %downs.weight", "= expert_linear %eh, %route, %down.weight",
     "'down.weight' should be a weight [experts, rows, columns]"},

    // shapes
    {"%x = activation F32 [T, 256]", "%x = activation F32 [T, 255]",
     "'x' has 255 columns, 256 would be right"},
    {"%x = activation F32 [T, 256]", "%x = activation F32 [L, 256]",
     "'x' has 1L rows, 1T would be right"},
    {"%norm = weight F32 [1, 256]", "%norm = weight F32 [1, 128]",
     "'norm' has 128 columns, 256 would be right"},
    {"%head_norm = weight F32 [1, 64]", "%head_norm = weight F32 [1, 60]",
     "the 60 columns of 'head_norm' do not divide the 256 of 'q'"},
    {"%qn = activation F32 [T, 256]", "%qn = activation F32 [T, 128]",
     "'qn' has 128 columns, 256 would be right"},
    {"%qn = activation F32 [T, 256]", "%qn = activation F32 [2T, 256]",
     "'qn' has 2T rows, 1T would be right"},
    {"%n2 = rms_norm %bf, %norm {layer=2 eps=9.99999975e-06}",
     "%n2 = rms_norm %bf, %norm {layer=2}", "eps=0, more than 0"},
    {"{layer=1 eps=9.99999975e-06}\n%qkv", "{layer=1 eps=-1}\n%qkv",
     "norm_quantise to 'n1': eps=-1, more than 0"},
    {"%n3 = activation q8_row [T, 256]", "%n3 = activation q8_row [T, 288]",
     "'n3' has 288 columns, 256"},
    {"%k.weight = weight Q6_K [128, 256]", "%k.weight = weight Q6_K [128, 512]",
     "'k.weight' has 512 columns, as many as 'n1' (256)"},
    {"%k.weight = weight Q6_K [128, 256]", "%k.weight = weight Q6_K [120, 256]",
     "'qkv' has 512 columns, 504 would be right"},
    {"%k.weight = weight Q6_K", "%k.weight = weight F16", "'n1' is q8_row but 'k.weight' is F16"},
    {"%bf = activation F32 [T, 256]", "%bf = activation F32 [2T, 256]", "'bf' has 2T rows, 1T"},
    {"unit=64", "unit=513", "unit=513, at most 512"},
    {"%q.bias = weight F32 [1, 256]", "%q.bias = weight F32 [1, 128]",
     "'q.bias' has 128 columns, 256"},
    {"%qb = activation F32 [T, 256]", "%qb = activation F32 [T, 512]",
     "add_bias to 'qb': 'qb' has 512 columns, 256"},
    {"%h = gate_up %n2, %gate.weight, %up.weight", "%h = gate_up %n2, %gate.weight, %down.weight",
     "'down.weight' has 512 columns, as many as 'n2' (256)"},
    {"%h = gate_up %n2, %gate.weight, %up.weight", "%h = gate_up %n2, %gate.weight, %q.weight",
     "'q.weight' has 256 rows, 512 would be right"},
    {"%h = activation q8_row [T, 512]", "%h = activation q8_row [T, 256]",
     "'h' has 256 columns, 512"},
    {"%h = activation q8_row [T, 512]", "%h = activation q8_row [L, 512]", "'h' has 1L rows, 1T"},
    {"%r1 = add %d, %sum", "%r1 = add %d, %kr", "'kr' has 128 columns, 256"},
    {"%r1 = activation F32 [T, 256]", "%r1 = activation F32 [T, 128]", "'r1' has 128 columns, 256"},
    {"%gu = act_mul %g, %u", "%gu = act_mul %g, %d", "'d' has 256 columns, 512"},
    {"{softcap=30}", "", "softcap=0, more than 0"},
    {"%logits = activation F32 [L, 1000]", "%logits = activation F32 [T, 1000]",
     "'logits' has 1T rows, 1L"},
    {"{rotary_dim=32 freq", "{rotary_dim=33 freq", "rotary_dim=33, an even number up to 512"},
    {"{rotary_dim=32 freq", "{freq", "rotary_dim=0, an even number"},
    {"{rotary_dim=32 freq", "{rotary_dim=514 freq", "rotary_dim=514, an even number"},
    {" freq_base=10000", "", "freq_base=0, more than 0"},
    {" freq_base=10000", " freq_base=10000 freq_scale=-1", "freq_scale=-1, 0 or more"},
    {"%factors = weight F32 [1, 16]", "%factors = weight F32 [1, 32]",
     "'factors' has 32 columns, 16"},
    {"%table = activation F32 [T, 32]", "%table = activation F32 [T, 64]",
     "'table' has 64 columns, 32"},
    {"%table = activation F32 [T, 32]", "%table = activation F32 [L, 32]",
     "'table' has 1L rows, 1T"},
    {"heads=4 head_dim=64 rope_style", "heads=4 rope_style", "rope to 'qr': head_dim=0"},
    {"heads=4 head_dim=64 rope_style", "heads=4 head_dim=96 rope_style",
     "'qb' has 256 columns, a multiple of head_dim=96"},
    {"heads=4 head_dim=64 rope_style", "heads=3 head_dim=64 rope_style",
     "heads=3, 4 would be right"},
    {"heads=4 head_dim=64 rope_style", "head_dim=16 rope_style",
     "'table' has 32 columns, an even number up to head_dim=16"},
    {"heads=4 head_dim=64 rope_style", "head_dim=64 rotary_dim=64 rope_style",
     "rotary_dim=64, 32 would be right"},
    {"%kr = activation F32 [T, 128]", "%kr = activation F32 [T, 256]", "'kr' has 256 columns, 128"},
    {"kv_write %kr, %v, %kv.1", "kv_write %qr, %v, %kv.1",
     "node 8, kv_write: 'qr' has 256 columns, 128"},
    {"kv_write %kr, %v, %kv.1", "kv_write %kr, %q, %kv.1", "'q' has 256 columns, 128"},
    {"%kv.1 {layer=1}\n", "%kv.1 {kv_heads=1}\n", "kv_heads=1, 2 would be right"},
    {"%kv.1 {layer=1}\n", "%kv.1 {head_dim=32}\n", "head_dim=32, 64 would be right"},
    {"heads=4 kv_heads=2 head_dim=64 scale=0.125 softcap=50", "heads=4 kv_heads=2 scale=0.125",
     "head_dim=0, 64 would be right"},
    {"heads=4 kv_heads=2 head_dim=64 scale=0.125 softcap=50",
     "heads=3 kv_heads=2 head_dim=64 scale=0.125", "heads=3, 4 would be right"},
    {"heads=4 kv_heads=2 head_dim=64 scale=0.125 softcap=50",
     "heads=4 kv_heads=4 head_dim=64 scale=0.125", "kv_heads=4, 2 would be right"},
    {"%a = attention %qr, %kv.1",
     "%z = activation F32 [T, 192] {of=%qkv column=0}\n%a = attention %z, %kv.1 {heads=3 "
     "kv_heads=2 head_dim=64 scale=1} #",
     "heads=3, a multiple of kv_heads=2 would be right"},
    {"%es = expert_sum %ed, %route",
     "%z = activation F32 [T, 5] {of=%qkv column=0}\n%es = expert_sum %ed, %z",
     "'z' has 5 columns, 2 * top_k would be right"},
    {"scale=0.125 softcap=50", "scale=0.125 softcap=-1", "softcap=-1, 0 or more"},
    {"scale=0.125 softcap=50", "softcap=50", "scale=0, more than 0"},
    {"%a = activation F32 [T, 256]", "%a = activation F32 [T, 128]", "'a' has 128 columns, 256"},
    {"%a = activation F32 [T, 256]", "%a = activation F32 [L, 256]", "'a' has 1L rows, 1T"},
    {"%partial = activation F32 [T, 528]", "%partial = activation F32 [T, 512]",
     "'partial' has 512 columns, a multiple of heads * (head_dim + 2) = 264"},
    {"%kv.2 {layer=2}\n%sum", "%kv.2 {heads=2}\n%sum",
     "attention_merge to 'merged': heads=2, 4 would be right"},
    {"%kv.2 {layer=2}\n%sum", "%kv.2 {head_dim=128}\n%sum", "head_dim=128, 64 would be right"},
    {"%merged = activation F32 [T, 256]", "%merged = activation F32 [T, 192]",
     "'partial' has 528 columns, a multiple of heads * (head_dim + 2) = 198"},
    {"%merged = activation F32 [T, 256]", "%merged = activation F32 [T, 200]",
     "'merged' has 200 columns, a multiple of head_dim=64"},
    {"attention_merge %partial,", "attention_merge %x,",
     "'x' has 256 columns, a multiple of heads * (head_dim + 2) = 264"},
    {"%last = activation F32 [L, 256]", "%last = activation F32 [T, 256]",
     "'last' has 1T rows, 1L"},
    {"%last = activation F32 [L, 256]", "%last = activation F32 [L, 128]",
     "'last' has 128 columns, 256"},
    {"%last = select_logits %r2.all", "%last = select_logits %ed", "'ed' has 2T rows, 1T"},
    {"route %router {layer=3 top_k=2 experts=8", "route %router {layer=3 top_k=2",
     "experts=0, 1 to 4096"},
    {"route %router {layer=3 top_k=2 experts=8", "route %router {layer=3 top_k=2 experts=4097",
     "experts=4097, 1 to 4096"},
    {"route %router {layer=3 top_k=2 experts=8", "route %router {layer=3 top_k=9 experts=8",
     "top_k=9, 1 to experts=8"},
    {"route %router {layer=3 top_k=2 experts=8", "route %router {layer=3 experts=8",
     "top_k=0, 1 to experts=8"},
    {"route %router {layer=3 top_k=2 experts=8", "route %router {layer=3 top_k=2 experts=9",
     "'router' has 8 columns, 9"},
    {"route %router {layer=3 top_k=2 experts=8", "route %router {layer=3 top_k=3 experts=8",
     "'route' has 4 columns, 6"},
    {"site=moe.gate_up top_k=2", "site=moe.gate_up top_k=4", "top_k=4, 2 would be right"},
    {"site=moe.gate_up top_k=2 experts=8", "site=moe.gate_up top_k=2 experts=7",
     "experts=7, 8 would be right"},
    {"%ups.weight = weight Q4_K [8, 128, 256]", "%ups.weight = weight Q4_K [8, 120, 256]",
     "'ups.weight' has 120 rows, 128 would be right"},
    {"%ups.weight = weight Q4_K [8, 128, 256]", "%ups.weight = weight Q4_K [9, 128, 256]",
     "expert_gate_up to 'eh': experts=8, 9 would be right"},
    {"%downs.weight = weight Q4_1 [8, 256, 128]", "%downs.weight = weight Q4_1 [1, 256, 128]",
     "expert_linear to 'ed': experts=8, 1 would be right"},
    {"%downs.weight = weight Q4_1 [8, 256, 128]", "%downs.weight = weight Q4_1 [8, 256, 160]",
     "'downs.weight' has 160 columns, as many as 'eh' (128)"},
    {"%downs.weight = weight Q4_1 [8, 256, 128]", "%downs.weight = weight BF16 [8, 256, 128]",
     "'eh' is q8_row but 'downs.weight' is BF16"},
    {"%eh = activation q8_row [2T, 128]", "%eh = activation q8_row [3T, 128]",
     "'eh' has 3T rows, 2T"},
    {"%eh = activation q8_row [2T, 128]", "%eh = activation q8_row [2T, 160]",
     "'eh' has 160 columns, 128"},
    {"%ed = activation F32 [2T, 256]", "%ed = activation F32 [T, 256]", "'ed' has 1T rows, 2T"},
    {"%ed = activation F32 [2T, 256]", "%ed = activation F32 [2T, 128]",
     "'ed' has 128 columns, 256"},
    {"= expert_gate_up %n3, %route,", "= expert_gate_up %n3, %router,",
     "top_k=2, 4 would be right"},
    {"= expert_sum %ed, %route", "= expert_sum %es, %route", "'es' has 1T rows, 2T"},
    {"%ups.weight, %downs.weight", "%ups.weight, %ups.weight", "'ups.weight' has"},
    {"expert_expect %route,", "expert_expect %router,", "top_k=2, 4 would be right"},
    {"expert_expect %route, %gates.weight {layer=3 top_k=2 experts=8}",
     "expert_expect %route, %gates.weight {layer=3 top_k=2 experts=9}",
     "expert_expect: experts=9, 8 would be right"},
    {"%es = activation F32 [T, 256]", "%es = activation F32 [2T, 256]", "'es' has 2T rows, 1T"},
    {"%es = activation F32 [T, 256]", "%es = activation F32 [T, 128]", "'es' has 128 columns, 256"},

    // slices, and heads that are not whole groups
    {"{row=64 column=0}", "{row=64}", "the setting that belongs here"},
    {"{row=64 column=0}", "{column=0 row=64}", "the nearest is 'row'"},
    {"{row=64 column=0}", "{row=64 column=16}",
     "value 'v.weight': a slice from column 16, a multiple of 32 would be right for Q8_0"},
    {"{row=0 column=512}", "{row=0 column=128}", "a multiple of 256 would be right for Q5_K"},
    {"{row=64 column=0}", "{row=16777089 column=0}", "first row 16777089, 0 to 16777088"},
    {"{row=0 column=512}", "{row=0 column=16776960}", "first column 16776960, 0 to 16776704"},
    {"group=3 head_offset=1", "head_offset=1", "head_offset=1, 0 would be right"},
    {"group=3 head_offset=1", "group=3 head_offset=3", "head_offset 3, 0 to 2 would be right"},
    {"group=3 head_offset=1", "group=2 head_offset=1", "kv_heads=2, 3 would be right"},
    {"group=3 head_offset=1", "group=5 head_offset=1", "kv_heads=2, 1 would be right"},
    {"group=3 head_offset=1", "group=16777217", "group 16777217, 1 to 16777216"},

    // ranks
    {"= all_reduce %dp {layer=2 ranks=2}", "= all_reduce %dp {layer=2}",
     "all_reduce to 'd': ranks 0, 1 to 256"},
    {"= all_reduce %dp {layer=2 ranks=2}", "= all_reduce %dp {layer=2 ranks=257}", "ranks 257"},
    {"= all_reduce %dp {layer=2 ranks=2}", "= all_reduce %dp {layer=2 ranks=2 rank=2}",
     "rank 2, 0 to 1 would be right"},
    {"= all_reduce %dp", "= all_reduce %h", "'h' should be an F32 activation"},
    {"%d = activation F32 [T, 256]", "%d = activation F32 [T, 512]",
     "all_reduce to 'd': 'd' has 512 columns, 256"},
    {"%d = activation F32 [T, 256]", "%d = activation F32 [2T, 256]", "'d' has 2T rows, 1T"},
    {" chunks=4", "", "linear_all_reduce to 'fused': chunks 0, 1 to 16 would be right"},
    {" chunks=4", " chunks=17", "chunks 17, 1 to 16"},
    {"ranks=2 chunks", "rank=2 chunks", "linear_all_reduce to 'fused': ranks 0, 1 to 256"},
    {"%fused = activation F32 [T, 256]", "%fused = activation F32 [T, 128]",
     "'fused' has 128 columns, 256"},
    {"%fused.weight = weight F16 [256, 256]", "%fused.weight = weight F16 [256, 128]",
     "'fused.weight' has 128 columns, as many as 'sum' (256)"},
    {"= all_gather %capped {unit=16 ranks=2}", "= all_gather %capped {ranks=2}",
     "all_gather to 'logits': unit 0, 1 to"},
    {"= all_gather %capped {unit=16 ranks=2}", "= all_gather %capped {unit=64 ranks=2}",
     "'capped' has 496 columns, 512 would be right"},
    {"= all_gather %capped {unit=16 ranks=2}", "= all_gather %capped {unit=16 ranks=2 rank=1}",
     "'capped' has 496 columns, 504 would be right"},
    {"= all_gather %capped {unit=16 ranks=2}", "= all_gather %capped {unit=16 ranks=3}",
     "'capped' has 496 columns, 336 would be right"},
    {"= all_gather %capped {unit=16 ranks=2}", "= all_gather %capped {unit=16 ranks=2 rank=3}",
     "rank 3, 0 to 1"},
    {"= all_gather %capped", "= all_gather %sum", "'sum' has 256 columns, 496"},

    // the best logits
    {"all_gather_best %capped {unit=16 top_k=3 ", "all_gather_best %capped {unit=16 ",
     "all_gather_best to 'best': top_k 0, 1 to 1000 would be right"},
    {"all_gather_best %capped {unit=16 top_k=3 ", "all_gather_best %capped {unit=16 top_k=1001 ",
     "top_k 1001, 1 to 1000"},
    {"all_gather_best %capped {unit=16 top_k=3 ", "all_gather_best %capped {unit=64 top_k=3 ",
     "'capped' has 496 columns, 512 would be right"},

    // own rows
    {"= reduce_scatter %es {ranks=2}", "= reduce_scatter %es",
     "reduce_scatter to 'es.sum': ranks 0"},
    {"= reduce_scatter %es {ranks=2}", "= reduce_scatter %es {ranks=2 rank=2}", "rank 2, 0 to 1"},
    {"= reduce_scatter %es ", "= reduce_scatter %ed ", "'ed' has 2T rows, 1T would be right"},
    {"%es.sum = activation F32 [O, 256]", "%es.sum = activation F32 [T, 256]",
     "'es.sum' has 1T rows, 1O would be right"},
    {"%es.sum = activation F32 [O, 256]", "%es.sum = activation F32 [O, 128]",
     "'es.sum' has 128 columns, 256 would be right"},
    {"= own_rows %sum", "= own_rows %sum.own", "'sum.own' has 1O rows, 1T would be right"},
    {"%sum.own = activation F32 [O, 256]", "%sum.own = activation F32 [2O, 256]",
     "'sum.own' has 2O rows, 1O would be right"},
    {"%r2 = add %sum.own, %es.sum", "%r2 = add %sum, %es.sum",
     "'es.sum' has 1O rows, 1T would be right"},
    {"= all_gather_rows %r2 {ranks=2}", "= all_gather_rows %r2 {ranks=2 rank=9}", "rank 9, 0 to 1"},
    {"= all_gather_rows %r2 ", "= all_gather_rows %es ", "'es' has 1T rows, 1O would be right"},
    {"%r2.all = activation F32 [T, 256]", "%r2.all = activation F32 [O, 256]",
     "'r2.all' has 1O rows, 1T would be right"},
    {"%r2.all = activation F32 [T, 256]", "%r2.all = activation F32 [2L, 256]",
     "'r2.all' has 2L rows, 1L would be right"},
    {"%r2.all = activation F32 [T, 256]", "%r2.all = activation q8_row [T, 256]",
     "'r2.all' is q8_row, F32 as 'r2' would be right"},
    {"%r2.all = activation F32 [T, 256]", "%r2.all = activation F32 [T, 288]",
     "'r2.all' has 288 columns, 256 would be right"},

    // prefetch
    {"prefetch %kv.1", "prefetch %x", "'x' should be a weight or a kv"},
    {"prefetch %kv.1", "prefetch %kv.1, %kv.2", "2 operands, 1 to 1"},
    {"prefetch %kv.1", "%a = prefetch %kv.1", "has no output"},
};

// The file with the first `find` replaced, from the heap. `find` must stand there once.
static char *change(const char *text, const fault *edit)
{
    const char *place = strstr(text, edit->find);
    if (place == NULL || strstr(place + 1, edit->find) != NULL) {
        fail_msg("'%s' does not stand once in " GRAPH_FILE, edit->find);
    }
    const size_t before = (size_t)(place - text);
    const size_t bytes = strlen(text) + strlen(edit->replace) + 1;
    char *changed = malloc(bytes);
    assert_non_null(changed);
    (void)snprintf(changed, bytes, "%.*s%s%s", (int)before, text, edit->replace,
                   place + strlen(edit->find));
    return changed;
}

static void test_graph_with_every_operator_is_accepted(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(GRAPH_FILE);
    for (unsigned op = 0; op < PS_OP_COUNT; op++) {
        char word[64];
        (void)snprintf(word, sizeof word, " %s %%", ps_op_get((ps_op)op)->name);
        if (strstr(text, word) == NULL && strstr(text, word + 1) == NULL) {
            fail_msg("no '%s' in " GRAPH_FILE, word);
        }
    }
    ps_graph_text_expect(text, NULL, NULL, text);
    free(text);
}

static bool is_refused(const char *text, const fault *edit)
{
    char *changed = change(text, edit);
    ps_buffer out = {0};
    const ps_status status = ps_graph_text_run(changed, NULL, NULL, &out);
    const char *message = status == PS_OK ? "accepted" : ps_error_message();
    const bool right = status == PS_INVALID && strstr(message, edit->message) != NULL;
    if (!right) {
        print_error("'%s' -> '%s'\n  expected '%s'\n  found    '%s'\n", edit->find, edit->replace,
                    edit->message, message);
    }
    ps_buffer_deinit(&out);
    free(changed);
    return right;
}

static void test_faults_are_refused(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(GRAPH_FILE);
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++) {
        wrong += !is_refused(text, &FAULTS[i]);
    }
    free(text);
    assert_int_equal(wrong, 0);
}

// Variants that are right although they look unusual.
static const fault VARIANTS[] = {
    {"= rope_table %factors", "= rope_table", NULL},
    {"%h = activation q8_row", "%h = activation F32", NULL},
    {"%eh = activation q8_row", "%eh = activation F32", NULL},
    {"= expert_gate_up %n3,", "= expert_gate_up %r1,", NULL},
    {"%partial = activation F32 [T, 528]", "%partial = activation F32 [T, 264]", NULL},
    {"%x = embed %token", "# a comment\n\n  #\r\n\t %x  =embed   %token", NULL},
};

static void test_variants_are_accepted(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(GRAPH_FILE);
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        char *changed = change(text, &VARIANTS[i]);
        ps_graph_text_expect(changed, NULL, NULL, changed);
        free(changed);
    }
    free(text);
}

// Faults that have no text: what a pass could do wrong in memory.
typedef struct memory_fault {
    void (*make)(ps_graph *graph);
    const char *message;
} memory_fault;

static ps_value *value_of(ps_graph *graph, const char *name)
{
    const ps_value_id id = ps_graph_find(graph, ps_str_of(name));
    assert_int_not_equal(id, PS_NO_VALUE);
    return &graph->values[id];
}

static void make_renamed(ps_graph *graph)
{
    value_of(graph, "h")->name = "hh";
}

static void make_twins(ps_graph *graph)
{
    value_of(graph, "h")->name = "n2";
}

static void make_bad_operator(ps_graph *graph)
{
    graph->nodes[3].op = PS_OP_COUNT;
}

static void make_bad_input(ps_graph *graph)
{
    graph->nodes[3].inputs[1] = graph->value_count;
}

static void make_no_input(ps_graph *graph)
{
    graph->nodes[3].inputs[1] = PS_NO_VALUE;
}

static void make_bad_output(ps_graph *graph)
{
    graph->nodes[3].output = graph->value_count;
}

static void make_bad_base(ps_graph *graph)
{
    value_of(graph, "q")->alias_of = graph->value_count;
}

static void make_own_view(ps_graph *graph)
{
    value_of(graph, "q")->alias_of = ps_graph_find(graph, ps_str_of("q"));
}

static void make_weight_view(ps_graph *graph)
{
    value_of(graph, "norm")->alias_of = 0;
}

static void make_bad_dtype(ps_graph *graph)
{
    value_of(graph, "q")->dtype = PS_DTYPE_COUNT;
}

static void make_bad_kind(ps_graph *graph)
{
    value_of(graph, "a")->kind = (ps_value_kind)3;
}

static void make_bad_rows(ps_graph *graph)
{
    value_of(graph, "a")->row_kind = (ps_rows)3;
}

static void make_nan(ps_graph *graph)
{
    graph->nodes[2].attributes.eps = NAN;
}

static void make_infinite(ps_graph *graph)
{
    graph->nodes[2].attributes.eps = INFINITY;
}

static void make_bad_site(ps_graph *graph)
{
    graph->nodes[2].attributes.site = PS_SITE_COUNT;
}

static void make_bad_gating(ps_graph *graph)
{
    graph->nodes[2].attributes.gating = 2;
}

static void make_many_groups(ps_graph *graph)
{
    graph->kv_group_count = PS_KV_GROUPS_MAX + 1;
}

static void make_few_experts(ps_graph *graph)
{
    value_of(graph, "downs.weight")->experts = 1;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == PS_OP_EXPERT_LINEAR) {
            graph->nodes[i].attributes.experts = 1;
        }
    }
}

static const memory_fault MEMORY_FAULTS[] = {
    {make_renamed, "value 'hh': another value has this name, or it was renamed"},
    {make_twins, "value 'n2': another value has this name"},
    {make_bad_operator, "node 3: operator 31 is unknown"},
    {make_bad_input, "operand 1 is value 61 of 61"},
    {make_no_input, "operand 1 is value 4294967295 of 61"},
    {make_bad_output, "output is value 61 of 61"},
    {make_bad_base, "view of value 61 of 61"},
    {make_own_view, "view of 'q', which is no activation with its own storage"},
    {make_weight_view, "value 'norm': only activations are views"},
    {make_bad_dtype, "dtype 15 is unknown"},
    {make_bad_kind, "value kind 3 is unknown"},
    {make_bad_rows, "row kind 3 is unknown"},
    {make_nan, "eps is not finite"},
    {make_infinite, "eps is not finite"},
    {make_bad_site, "site=10, less than 10"},
    {make_bad_gating, "gating=2, less than 2"},
    {make_few_experts, "'downs.weight' has 1 experts but each row asks for 2"},
    {make_many_groups, "kv groups 5, 0 to 4"},
};

static void test_faults_in_memory_are_refused(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(GRAPH_FILE);
    for (size_t i = 0; i < sizeof MEMORY_FAULTS / sizeof *MEMORY_FAULTS; i++) {
        ps_arena arena;
        ps_arena_init(&arena, PS_GRAPH_TEXT_ARENA_BYTES);
        ps_graph graph;
        ps_graph_init(&graph, &arena);
        ps_graph_text_require(ps_graph_parse(ps_str_of(text), &graph), GRAPH_FILE);
        MEMORY_FAULTS[i].make(&graph);
        const ps_status status = ps_graph_verify(&graph, "a bad pass");
        ps_graph_text_expect_message(status, MEMORY_FAULTS[i].message);
        ps_graph_text_expect_message(status, "after a bad pass: ");
        ps_arena_deinit(&arena);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_with_every_operator_is_accepted),
        cmocka_unit_test(test_faults_are_refused),
        cmocka_unit_test(test_variants_are_accepted),
        cmocka_unit_test(test_faults_in_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
