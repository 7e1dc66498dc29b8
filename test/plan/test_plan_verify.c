// ctest-labels: file
// ctest-links: ps_ir
// Goal: ps_plan_verify and ps_plan_parse refuse what a runner must not see, and say what is wrong.
// Method: two plans, for few and for many rows, and one of a rank with rows of its own have every
// operator between them and are accepted; then one thing of
// their text is changed at a time (some faults take two edits to stay alone), and the message must
// hold the words that name that fault. What text cannot say is set in memory.
#include "plan/plan_text_test.h"

#define DECODE "test/plan/decode.plan"
#define PREFILL "test/plan/prefill.plan"
#define ROWS "test/plan/rows.plan"

// Part of the message, then what stands once in the plan and what replaces it; the second edit may
// be missing.
enum { MESSAGE, FIND, REPLACE, FIND_TOO, REPLACE_TOO, FAULT_PARTS };
typedef const char *const fault[FAULT_PARTS];

#define NAME_300                                                                                   \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxx"                                                                                     \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxx"                                                                                     \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxx"

#define GATE_PREFETCH "{layer=3 site=mlp.gate_up bytes=65536 reason=part_time} split=units stream=2"

static fault DECODE_FAULTS[] = {
    // syntax and names
    {"line 2: 'paln' is not a heading or an operator; the nearest is 'plan'", "plan rows_max",
     "paln rows_max"},
    {"line 3: a second plan", "kv_group window=0", "plan rows_max=8\nkv_group window=0"},
    {"the nearest is 'rows_max'", "plan rows_max", "plan rowsmax"},
    {"'rows_max' is given twice", "plan rows_max=8", "plan rows_max=8 rows_max=8"},
    {"4294967296 is too large", "plan rows_max=8", "plan rows_max=4294967296"},
    {"more than 4 kv groups", "kv_group window=0",
     "kv_group window=0\nkv_group window=0\nkv_group window=0\nkv_group window=0"},
    {"the nearest is 'window'", "kv_group window=0", "kv_group windows=0"},
    {"'sharde' is not a workspace; the nearest is 'shared'",
     "%qkv = activation F32 [T, 512] shared", "%qkv = activation F32 [T, 512] sharde"},
    {"expected a workspace at the end of the line",
     "%qkv = activation F32 [T, 512] shared row_bytes=2048 part_unit=64 part_columns=512",
     "%qkv = activation F32 [T, 512]"},
    {"expected the end of the line", "{of=%qkv column=0}", "{of=%qkv column=0} shared"},
    {"the nearest is 'part_unit'", "%gu = activation F32 [T, 512] shared row_bytes=2048 part_unit",
     "%gu = activation F32 [T, 512] shared row_bytes=2048 part_unti"},
    {"there are two values named 'table'", "%n1 = activation", "%table = activation"},
    {"a name is longer than 255 bytes", "%n1 = activation", "%" NAME_300 " = activation"},
    {"'nn' is not defined above", "%n1 = norm_quantise", "%nn = norm_quantise"},
    {"'xx' is not defined above", "norm_quantise %x,", "norm_quantise %xx,"},
    {"'clumns' is not a split; the nearest is 'columns'",
     "{softcap=30 window=vector} split=columns", "{softcap=30 window=vector} split=clumns"},
    {"the setting that belongs here", "{softcap=30 window=vector} split=columns",
     "{softcap=30 window=vector}"},
    {"'streem' is not a setting that may stand here; the nearest is 'stream'",
     "{softcap=30 window=vector} split=columns",
     "{softcap=30 window=vector} split=columns streem=0"},
    {"a barrier after a barrier", "barrier\n%a.partial", "barrier\nbarrier\n%a.partial"},
    {"a barrier at the end", "split=one stream=1 predicted_ns=18564",
     "split=one stream=1 predicted_ns=18564\nbarrier"},

    // limits
    {"rows_max 0, 1 to 65536 would be right", "plan rows_max=8 ", "plan "},
    {"rows_max 65537, 1 to 65536", "plan rows_max=8 ", "plan rows_max=65537 "},
    {"logits_max 9, 0 to 8", "logits_max=4", "logits_max=9"},
    {"context_max 0, 1 to 16777216", "context_max=512", "context_max=0"},
    {"context_max 16777217, 1 to", "context_max=512", "context_max=16777217"},
    {"vocabulary 0, 1 to", "vocabulary=1000", "vocabulary=0"},
    {"workspace of 1099511627777 bytes", "shared_bytes=46080", "shared_bytes=1099511627777"},
    {"workspace of 1099511627777 bytes", "private_bytes=24576", "private_bytes=1099511627777"},
    {"value 'kv.2': group 1, but there are 1 kv groups", "kv_group window=128\n", ""},

    // places
    {"do not fit into a workspace of 46079", "shared_bytes=46080", "shared_bytes=46079"},
    {"value 'sum': 8 rows of 1024 bytes at 16384 do not fit into a workspace of 24575",
     "private_bytes=24576", "private_bytes=24575"},
    {"value 'table': offset 11265, a multiple of 64 would be right",
     "%table = activation F32 [T, 32] private offset_bytes=11264",
     "%table = activation F32 [T, 32] private offset_bytes=11265"},
    {"do not fit into a workspace", "%table = activation F32 [T, 32] private offset_bytes=11264",
     "%table = activation F32 [T, 32] private offset_bytes=18446744073709551552"},
    {"value 'x': rows of 1020 bytes, a multiple of 4 from 1024 on is right",
     "%x = activation F32 [T, 256] private row_bytes=1024",
     "%x = activation F32 [T, 256] private row_bytes=1020"},
    {"value 'x': rows of 1026 bytes", "%x = activation F32 [T, 256] private row_bytes=1024",
     "%x = activation F32 [T, 256] private row_bytes=1026"},
    {"value 'x': rows of 0 bytes", "%x = activation F32 [T, 256] private row_bytes=1024",
     "%x = activation F32 [T, 256] private"},
    {"value 'x': 8 rows of 18446744073709551612 bytes",
     "%x = activation F32 [T, 256] private row_bytes=1024",
     "%x = activation F32 [T, 256] private row_bytes=18446744073709551612"},
    {"value 'n3': rows of 320 bytes, a multiple of 64 from 384 on is right",
     "%n3 = activation q8_row [T, 256] private offset_bytes=8192 row_bytes=384",
     "%n3 = activation q8_row [T, 256] private offset_bytes=8192 row_bytes=320"},
    {"value 'n3': rows of 400 bytes",
     "%n3 = activation q8_row [T, 256] private offset_bytes=8192 row_bytes=384",
     "%n3 = activation q8_row [T, 256] private offset_bytes=8192 row_bytes=400"},
    {"'x' and 'table' share bytes while both are needed",
     "%table = activation F32 [T, 32] private offset_bytes=11264",
     "%table = activation F32 [T, 32] private"},
    {"'x' and 'table' share bytes while both are needed",
     "%table = activation F32 [T, 32] private offset_bytes=11264",
     "%table = activation F32 [T, 32] private offset_bytes=8128"},
    {"share bytes while both are needed", "%qn = activation F32 [T, 256] shared offset_bytes=16384",
     "%qn = activation F32 [T, 256] shared offset_bytes=16320"},
    // Nobody reads qn any more when qr is written, but no barrier stands between: a slower worker
    // may still.
    {"'qn' and 'qr' share bytes while both are needed",
     "%qr = activation F32 [T, 256] shared offset_bytes=33792",
     "%qr = activation F32 [T, 256] shared offset_bytes=16384"},
    // The output is needed when all steps are done.
    {"'logits' and 'late' share bytes while both are needed", "%n2.q8 = activation",
     "%late = activation F32 [L, 496] shared row_bytes=1984 part_unit=16 "
     "part_columns=496\n%n2.q8 = activation",
     "split=one stream=1 predicted_ns=18564",
     "split=one stream=1\nbarrier\n%late = softcap %lastq {softcap=30} split=columns"},

    // columns shared out
    {"value 'qkv': is shared out by columns in units of 0",
     "%qkv = activation F32 [T, 512] shared row_bytes=2048 part_unit=64",
     "%qkv = activation F32 [T, 512] shared row_bytes=2048"},
    {"columns shared out 16777217, 1 to", "row_bytes=1024 part_unit=16 part_columns=256\n%h",
     "row_bytes=1024 part_unit=16 part_columns=16777217\n%h"},
    {"offset in them 257, 0 to 256", "row_bytes=1024 part_unit=16 part_columns=256\n%h",
     "row_bytes=1024 part_unit=16 part_columns=256 part_offset=257\n%h"},
    {"linear to 'bf': 'bf' is shared out in units of 8 columns from 0 on, multiples of 16",
     "row_bytes=1024 part_unit=16 part_columns=256\n%h",
     "row_bytes=1024 part_unit=8 part_columns=256\n%h"},
    {"'bf' is shared out in units of 16 columns from 8 on, multiples of 16",
     "row_bytes=1024 part_unit=16 part_columns=256\n%h",
     "row_bytes=1024 part_unit=16 part_columns=512 part_offset=8\n%h"},
    {"'bf' is shared out in units of 0 columns", "row_bytes=1024 part_unit=16 part_columns=256\n%h",
     "row_bytes=1024\n%h"},
    {"'bf' ends at column 256 of 240 that are shared out",
     "row_bytes=1024 part_unit=16 part_columns=256\n%h",
     "row_bytes=1024 part_unit=16 part_columns=240\n%h"},
    {"gate_up to 'gu': 'gu' is shared out in units of 16 columns from 0 on, multiples of 32",
     "%gu = activation F32 [T, 512] shared row_bytes=2048 part_unit=32",
     "%gu = activation F32 [T, 512] shared row_bytes=2048 part_unit=16"},
    {"gate_up to 'h': 'h' is shared out in units of 48 columns", "row_bytes=704 part_unit=32",
     "row_bytes=704 part_unit=48"},
    {"rms_norm to 'qn': 'qn' is shared out in units of 32 columns from 0 on, multiples of 64",
     "offset_bytes=16384 row_bytes=1024 part_unit=64",
     "offset_bytes=16384 row_bytes=1024 part_unit=32"},
    {"rope to 'qr': 'qr' is shared out in units of 32 columns from 0 on, multiples of 64",
     "offset_bytes=33792 row_bytes=1024 part_unit=64",
     "offset_bytes=33792 row_bytes=1024 part_unit=32"},
    {"rope to 'kr': 'kr' is shared out in units of 64 columns from 224 on, multiples of 64",
     "part_offset=256", "part_offset=224"},
    {"kv_write: 'xv' is shared out in units of 0 columns", "kv_write %kr, %v, %kv.1",
     "kv_write %kr, %xv, %kv.1", "%qn = activation",
     "%xv = activation F32 [T, 128] {of=%x column=0}\n%qn = activation"},
    {"quantise to 'n3': 'n3' is shared out in units of 16 columns from 0 on, multiples of 32",
     "%n3 = activation q8_row [T, 256] private offset_bytes=8192 row_bytes=384",
     "%n3 = activation q8_row [T, 256] shared offset_bytes=24576 row_bytes=384 part_unit=16 "
     "part_columns=256",
     "%n3 = quantise %r1 {layer=3 window=vector} split=all",
     "%n3 = quantise %r1 {layer=3 window=vector} split=columns"},
    {"linear to 'qkv': 'k.weight' has 120 rows before the next weight, a multiple of 16",
     "%k.weight = weight Q6_K [128, 256]", "%k.weight = weight Q6_K [120, 256]",
     "%v.weight = weight Q8_0 [128, 256]", "%v.weight = weight Q8_0 [136, 256]"},

    // splits
    {"linear to 'lastq': cannot be split by all", "{site=lm_head unit=16} split=columns",
     "{site=lm_head unit=16} split=all"},
    {"linear to 'lastq': cannot be split by rows", "{site=lm_head unit=16} split=columns",
     "{site=lm_head unit=16} split=rows"},
    {"embed to 'x': cannot be split by columns", "{scale=16} split=all",
     "{scale=16} split=columns"},
    {"embed to 'x': cannot be split by units", "{scale=16} split=all", "{scale=16} split=units"},
    {"kv_write: cannot be split by all", "%kv.1 {layer=1 window=vector} split=columns",
     "%kv.1 {layer=1 window=vector} split=all"},
    {"attention_partial to 'partial': cannot be split by rows",
     "head_offset=1 scale=0.125} split=units", "head_offset=1 scale=0.125} split=rows"},
    {"expert_linear to 'ed': cannot be split by columns",
     "{layer=3 site=moe.down top_k=2 experts=8} split=units",
     "{layer=3 site=moe.down top_k=2 experts=8} split=columns"},
    {"expert_sum to 'es': cannot be split by columns", "{layer=3 top_k=2 window=vector} split=all",
     "{layer=3 top_k=2 window=vector} split=columns"},
    {"embed to 'x': 'x' is private, but the step is split by rows", "{scale=16} split=all",
     "{scale=16} split=rows"},
    {"embed to 'x': 'x' is shared, but the step is split by all",
     "%x = activation F32 [T, 256] private", "%x = activation F32 [T, 256] shared"},
    {"embed to 'x': 'x' is shared out by columns, but the step by all",
     "%x = activation F32 [T, 256] private row_bytes=1024",
     "%x = activation F32 [T, 256] private row_bytes=1024 part_unit=16 part_columns=256"},

    // operands: shared rules, order, writers, outputs
    {"step 2, norm_quantise to 'n1': eps=0, more than 0",
     "layer=1 eps=9.99999975e-06 window=vector} "
     "split=all",
     "layer=1 window=vector} split=all"},
    {"'qkv' has 512 columns, 528 would be right", "%k.weight = weight Q6_K [128, 256]",
     "%k.weight = weight Q6_K [144, 256]"},
    {"step 23, add to 'r1': 'r1' is read before it is written", "%r1 = add %d, %sum",
     "%r1 = add %d, %r1"},
    {"'sum' is written twice", "%r1 = add %d, %sum", "%sum = add %d, %sum"},
    {"'q' is a view; write 'qkv' in whole", "%qn = rms_norm %q,", "%q = rms_norm %q,"},
    {"'kv.1' is written twice", "kv_write %kr, %v, %kv.2", "kv_write %kr, %v, %kv.1"},
    {"'kv.2' is read before it is written",
     "kv_write %kr, %v, %kv.2 {layer=2 window=vector} "
     "split=columns predicted_ns=20\n",
     ""},
    {"no value is the output", "[L, 1000] output", "[L, 1000]"},
    {"'logits' and 'other' are both outputs", "\n%logits = all_gather",
     "\n%other = all_gather %capped {unit=16 ranks=2} split=one stream=1\n%logits = all_gather",
     "%n2.q8 = act",
     "%other = activation F32 [L, 1000] output shared row_bytes=4032\n%n2.q8 = act"},
    {"output 'logits' must be an F32 activation [L, 999]", "vocabulary=1000", "vocabulary=999"},
    {"output 'logits' is not written", "%logits = all_gather", "%logits2 = all_gather",
     "%n2.q8 = act", "%logits2 = activation F32 [L, 1000] shared row_bytes=4032\n%n2.q8 = act"},

    // what the shared rules leave to plans
    {"embed to 'x': 'token_embd.weight' has 999 rows for a vocabulary of 1000",
     "%token_embd.weight = weight Q4_K [1000, 256]", "%token_embd.weight = weight Q4_K [999, 256]"},
    {"linear to 'bf': 'fused' is F32 but 'bf.weight' is Q8_0, q8_row rows would be right",
     "%bf.weight = weight BF16", "%bf.weight = weight Q8_0"},
    {"gate_up to 'gu': 'r1' is F32 but 'gate.weight' is Q4_0", "%gu = gate_up %r1.q8",
     "%gu = gate_up %r1"},
    {"expert_gate_up to 'eh': 'r1' is F32 but 'gates.weight' is Q4_K", "expert_gate_up %n3,",
     "expert_gate_up %r1,"},
    {"'a.partial' has 528 columns, 792 would be right for 513 positions", "context_max=512",
     "context_max=513"},
    {"'a.partial' has 528 columns, 264 would be right for 256 positions", "context_max=512",
     "context_max=256"},
    {"'merged' has other heads or another kv", "attention_merge %partial, %kv.2",
     "attention_merge %partial, %kv.1"},
    {"'double' is not what a attention_partial wrote", "%merged = attention_merge %partial",
     "%double = add %partial, %partial split=all\n%merged = attention_merge %double",
     "%n2.q8 = activation",
     "%double = activation F32 [T, 528] private row_bytes=2112\n%n2.q8 = activation"},
    {"'other' is not what a route wrote", "expert_gate_up %n3, %route",
     "expert_gate_up %n3, %other", "%eh = activation",
     "%other = activation F32 [T, 4] {of=%route column=0}\n%eh = activation"},
    {"'other' is not what a route wrote", "%eh = expert_gate_up %n3, %route",
     "%other = add %route, %route split=all\n%eh = expert_gate_up %n3, %other", "%eh = activation",
     "%other = activation F32 [T, 4] private row_bytes=64\n%eh = activation"},
    {"'route' chooses among 8 experts, 4 would be right", "%downs.weight = weight Q4_1 [8,",
     "%downs.weight = weight Q4_1 [4,", "site=moe.down top_k=2 experts=8",
     "site=moe.down top_k=2 experts=4"},

    // barriers that removing one (below) does not show
    {"reads parts of 'kv.1' that other workers write in step 8",
     "barrier\n%a.partial = attention_partial %qr", "%a.partial = attention_partial %x"},
    {"rope to 'kr': reads parts of 'tv' that other workers write in step 3",
     "%kr = rope %k, %table", "%kr = rope %k, %tv", "%qn = activation",
     "%tv = activation F32 [T, 64] {of=%qkv column=256}\n%qn = activation"},
    {"select_logits to 'last': reads parts of 'es2' that other workers write in step 32, without a "
     "barrier between",
     "%last = select_logits %es {window=vector} split=all",
     "%es2 = linear %sum, %bf.weight split=columns\n%last = select_logits %es2 split=all",
     "%n2.q8 = activation",
     "%es2 = activation F32 [T, 256] shared row_bytes=1024 part_unit=16 "
     "part_columns=256\n%n2.q8 = activation"},

    // ranks and streams
    {"ranks 257, 0 to 256", "ranks=2 vocabulary", "ranks=257 vocabulary"},
    {"rank 2, 0 to 1 would be right", "ranks=2 vocabulary", "ranks=2 rank=2 vocabulary"},
    {"rank 1, 0 to 0 would be right", "ranks=2 vocabulary", "rank=1 vocabulary"},
    {"linear_all_reduce to 'fused': is of rank 0 of 2, the plan of rank 1 of 2",
     "ranks=2 vocabulary", "ranks=2 rank=1 vocabulary"},
    {"all_reduce to 'd': is of rank 0 of 3, the plan of rank 0 of 2", "{layer=2 ranks=2 window",
     "{layer=2 ranks=3 window"},
    {"context_shards=4, a divisor of the 2 ranks would be right", "{layer=2 ranks=2 window",
     "{layer=2 ranks=2 context_shards=4 window"},
    {"all_reduce to 'd': is of rank 0 of 3, the plan of rank 0 of 2", "{layer=2 ranks=2 window",
     "{layer=2 ranks=3 context_shards=2 window"},
    {"'a.partial' has 528 columns, 264 would be right for 256 positions",
     "head_dim=64 scale=0.125 softcap=50} split=units",
     "head_dim=64 context_shards=2 scale=0.125 softcap=50} split=units"},
    {"context_shards 257, 0 to 256", "head_dim=64 scale=0.125 softcap=50} split=units",
     "head_dim=64 context_shards=257 scale=0.125 softcap=50} split=units"},
    {"all_reduce to 'fused': a collective in a plan of one rank", "ranks=2 vocabulary",
     "vocabulary"},
    {"all_reduce to 'd': stream=0, 1 would be right", "split=one stream=1 predicted_ns=14596",
     "split=one predicted_ns=14596"},
    {"all_reduce to 'd': stream=2, 1 would be right", "split=one stream=1 predicted_ns=14596",
     "split=one stream=2 predicted_ns=14596"},
    {"prefetch: stream=1, 2 would be right", "bytes=65536 reason=part_time} split=units stream=2",
     "bytes=65536 reason=part_time} split=units stream=1"},
    {"prefetch: stream=0, 2 would be right", "bytes=65536 reason=part_time} split=units stream=2",
     "bytes=65536 reason=part_time} split=units"},
    {"softcap to 'capped': stream=1, 0 would be right", "{softcap=30 window=vector} split=columns",
     "{softcap=30 window=vector} split=columns stream=1"},
    {"add to 'r1': stream=3, 0 would be right", "split=all join=2", "split=all stream=3 join=2"},
    {"all_reduce to 'd': cannot be split by all", "split=one stream=1 predicted_ns=14596",
     "split=all stream=1"},
    {"all_reduce to 'd': cannot be split by rows", "split=one stream=1 predicted_ns=14596",
     "split=rows stream=1"},
    {"all_gather to 'logits': cannot be split by columns", "split=one stream=1 predicted_ns=18564",
     "split=columns stream=1"},
    {"softcap to 'capped': cannot be split by one", "{softcap=30 window=vector} split=columns",
     "{softcap=30 window=vector} split=one"},
    {"linear_all_reduce to 'fused': cannot be split by one", "window=comm} split=columns",
     "window=comm} split=one"},
    {"linear_all_reduce to 'fused': stream=0, 1 would be right", "split=columns stream=1",
     "split=columns"},
    {"linear_all_reduce to 'fused': 'sum' is F32 but 'fused.weight' is Q8_0",
     "%fused.weight = weight F16", "%fused.weight = weight Q8_0"},
    {"'fused' is shared out in units of 8 columns",
     "%fused = activation F32 [T, 256] shared row_bytes=1024 part_unit=16",
     "%fused = activation F32 [T, 256] shared row_bytes=1024 part_unit=8"},
    {"linear to 'dp': cannot be split by one", "site=mlp.down} split=columns",
     "site=mlp.down} split=one"},
    {"kv_write: cannot be split by one", "%kv.1 {layer=1 window=vector} split=columns",
     "%kv.1 {layer=1 window=vector} split=one"},
    {"prefetch: cannot be split by one", "bytes=65536 reason=part_time} split=units",
     "bytes=65536 reason=part_time} split=one"},
    {"prefetch: cannot be split by columns", "bytes=65536 reason=part_time} split=units",
     "bytes=65536 reason=part_time} split=columns"},
    {"'d' is private, but the step is split by one",
     "%d = activation F32 [T, 256] shared offset_bytes=16384",
     "%d = activation F32 [T, 256] private offset_bytes=16384"},
    {"'d' is shared out by columns, but the step by one",
     "%d = activation F32 [T, 256] shared offset_bytes=16384 row_bytes=1024",
     "%d = activation F32 [T, 256] shared offset_bytes=16384 row_bytes=1024 part_unit=16 "
     "part_columns=256"},

    // joins: worker 0 waits for the collective, the others for worker 0
    {"add to 'r1': reads 'd' before the collective of step 21 has been joined",
     "split=all join=2 predicted_ns=746", "split=all predicted_ns=746"},
    {"add to 'r1': join=2 without a barrier", "barrier\n%r1 = add", "%r1 = add"},
    {"quantise to 'r1.q8': join=2 without a barrier",
     "{layer=3 window=vector} split=all "
     "predicted_ns=113\n%gu",
     "{layer=3 window=vector} split=all join=2\n%gu"},
    {"add to 'r1': join 3, 0 to 2 would be right", "split=all join=2", "split=all join=3"},
    {"norm_quantise to 'n2.q8': join 2, 0 to 1 would be right",
     "eps=9.99999975e-06 window=vector} split=all predicted_ns=613",
     "eps=9.99999975e-06 window=vector} split=all join=2"},
    // A barrier for something else lets the others pass while the collective is still under way.
    {"add to 'r1': reads 'd' before the collective of step 21 has been joined",
     "barrier\n%r1 = add %d, %sum {layer=2 window=vector} split=all join=2",
     "barrier\n%r1 = add %d, %sum {layer=2 window=vector} split=all"},
    // Nobody reads it, and it is written all the same: until the end, where nobody joins it.
    {"'dead' and 'gu' share bytes while both are needed", "prefetch %gate.weight",
     "%dead = all_reduce %dp {layer=2 ranks=2} split=one stream=1\nprefetch %gate.weight",
     "%n2.q8 = activation",
     "%dead = activation F32 [T, 256] shared offset_bytes=8192 row_bytes=1024\n%n2.q8 = "
     "activation"},

    // prefetches
    {"prefetch of 'gate.weight' starts late", "prefetch %gate.weight " GATE_PREFETCH "\n", "",
     "%r1.q8 = quantise", "prefetch %gate.weight " GATE_PREFETCH "\n%r1.q8 = quantise"},
    {"prefetch of 'gate.weight' starts late", "prefetch %gate.weight " GATE_PREFETCH "\n", "",
     "%h = gate_up", "prefetch %gate.weight " GATE_PREFETCH "\n%h = gate_up"},
    {"prefetch of 'kv.1' starts late", "prefetch %kv.1 {layer=1 site=kv} split=units stream=2\n",
     "", "kv_write %kr, %v, %kv.1",
     "prefetch %kv.1 {layer=1 site=kv} split=units stream=2\nkv_write %kr, %v, %kv.1"},
    // Dedicated threads need time, their own stream, and a reader at which to stop.
    {"prefetch of 'gate.weight' starts late: nothing runs between it and its reader",
     "%gu = gate_up",
     "prefetch %gate.weight {layer=3 window=side} split=units stream=3\n%gu = gate_up"},
    {"prefetch: stream=2, 3 would be right", "%r1.q8 = quantise",
     "prefetch %up.weight {layer=3 window=side} split=units stream=2\n%r1.q8 = quantise"},
    {"prefetch: stream=3, 2 would be right", "%r1.q8 = quantise",
     "prefetch %up.weight {layer=3} split=units stream=3\n%r1.q8 = quantise"},
    {"prefetch of 'q.weight', which nobody reads after it", "%r1.q8 = quantise",
     "prefetch %q.weight {layer=3 window=side} split=units stream=3\n%r1.q8 = quantise"},
    {"a prefetch fills a wait and has none itself", "%r1.q8 = quantise",
     "barrier\nprefetch %up.weight {layer=3 window=side} split=units stream=3\n%r1.q8 = quantise"},
    {"'gate.weight' is prefetched again in step 23, before it is read", "barrier\n%dp = linear",
     "prefetch %gate.weight {layer=3 window=side} split=units stream=3\nbarrier\n%dp = linear"},
    // One of a barrier does not fill a collective's wait.
    {"prefetch of 'gate.weight' starts late: no barrier follows",
     "prefetch %gate.weight " GATE_PREFETCH,
     "prefetch %gate.weight {layer=3 site=mlp.gate_up window=barrier} split=units stream=2\n"
     "%dead = quantise %sum {layer=2} split=all",
     "%n2.q8 = activation",
     "%dead = activation q8_row [T, 256] private row_bytes=384\n%n2.q8 = activation"},
    {"step 22: prefetch of 'q.weight', which nobody reads after it", "prefetch %gate.weight",
     "prefetch %q.weight"},
    {"prefetch of 'kv.1', which nobody reads after it", "prefetch %gate.weight " GATE_PREFETCH,
     "prefetch %kv.1 {layer=1 site=kv} split=units stream=2"},
    {"step 22: 'gate.weight' is prefetched again in step 23, before it is read",
     "prefetch %gate.weight " GATE_PREFETCH,
     "prefetch %gate.weight " GATE_PREFETCH "\nprefetch %gate.weight " GATE_PREFETCH},
    {"'gate.weight' is prefetched again in step 23, before it is read",
     "prefetch %gate.weight " GATE_PREFETCH,
     "prefetch %gate.weight " GATE_PREFETCH
     "\nprefetch %gate.weight {layer=3 skip=65535} split=units stream=2"},
    {"prefetch of 'q.weight', which nobody reads after it", "%r1.q8 = quantise",
     "prefetch %q.weight {layer=3 reason=compute_bound} split=units stream=2\n%r1.q8 = quantise"},
    {"a prefetch fills a wait and has none itself", "%r1.q8 = quantise",
     "barrier\nprefetch %gate.weight {reason=no_capacity} split=units stream=2\n%r1.q8 = quantise"},
    {"'no_tme' is not a value of 'reason'; the nearest is 'no_time'", "reason=part_time",
     "reason=no_tme"},
    {"step 22: a prefetch fills a wait and has none itself", "prefetch %gate.weight",
     "barrier\nprefetch %gate.weight"},
    {"a prefetch fills a wait and has none itself", "prefetch %gate.weight " GATE_PREFETCH,
     "barrier\nprefetch %gate.weight " GATE_PREFETCH " join=2"},
    {"join=2 without a barrier", "prefetch %gate.weight " GATE_PREFETCH,
     "prefetch %gate.weight " GATE_PREFETCH " join=2"},
};

static fault PREFILL_FAULTS[] = {
    // Rows that want logits are not the rows that a worker has.
    {"select_logits to 'last': reads parts of 'es' that other workers write",
     "barrier\n%last =", "%last ="},
    // Pairs are shared out otherwise than rows.
    {"expert_sum to 'es': reads parts of 'ed' that other workers write", "barrier\n%es =", "%es ="},
    {"route to 'route': reads parts of 'router' that other workers write",
     "barrier\n%route =", "%route ="},
    {"attention to 'a': reads parts of 'qr' that other workers write", "barrier\n%a =", "%a ="},
};

static fault ROWS_FAULTS[] = {
    {"reduce_scatter to 'd.sum': cannot be split by rows",
     "reduce_scatter %d {layer=1 ranks=2 rank=1 window=comm} split=one",
     "reduce_scatter %d {layer=1 ranks=2 rank=1 window=comm} split=rows"},
    {"reduce_scatter to 'd.sum': is of rank 0 of 2, the plan of rank 1 of 2",
     "reduce_scatter %d {layer=1 ranks=2 rank=1", "reduce_scatter %d {layer=1 ranks=2"},
    {"reduce_scatter to 'd.sum': stream=0, 1 would be right",
     "split=one stream=1 predicted_ns=10884\nprefetch %gate2",
     "split=one predicted_ns=10884\nprefetch %gate2"},
    {"all_gather_rows to 'n2.all.q8': is of rank 0 of 2", "%n2.q8 {layer=2 ranks=2 rank=1",
     "%n2.q8 {layer=2 ranks=2"},
    {"all_gather_rows to 'n2.all.q8': cannot be split by all",
     "window=comm} split=one stream=1 predicted_ns=10192",
     "window=comm} split=all stream=1 predicted_ns=10192"},
    {"add to 'r': reads 'd.sum' before the collective", "split=all join=1", "split=all"},
    {"gate_up to 'h2.q8': reads 'n2.all.q8' before the collective", "split=columns join=2",
     "split=columns"},
    {"all_gather_best to 'logits.all': top_k 513, 1 to 512", "top_k=4", "top_k=513"},
    {"all_gather_best to 'logits.all': cannot be split by all",
     "split=one stream=1 predicted_ns=10564", "split=all stream=1 predicted_ns=10564"},
    {"all_gather_best to 'logits.all': is of rank 0 of 2", "top_k=4 ranks=2 rank=1",
     "top_k=4 ranks=2"},
    // Two rows of 256 bytes, and not one byte less.
    {"'r' and 'r2' share bytes while both are needed",
     "%r2 = activation F32 [O, 64] private offset_bytes=512",
     "%r2 = activation F32 [O, 64] private offset_bytes=448"},
    {"value 'x.own': 2 rows of 256 bytes at 1920 do not fit",
     "%x.own = activation F32 [O, 64] private offset_bytes=1280",
     "%x.own = activation F32 [O, 64] private offset_bytes=1920"},
    // Who has the rows of the step does not have those of one rank.
    {"add to 'r': 'd.sum' has 1O rows, 1T would be right", "add %x.own, %d.sum", "add %x, %d.sum"},
    {"linear to 'd': 'd' has 1O rows, 1T would be right", "%d = activation F32 [T, 64]",
     "%d = activation F32 [O, 64]"},
};

static char *apply(const char *text, fault edit)
{
    char *changed = ps_plan_text_replace(text, edit[FIND], edit[REPLACE]);
    if (edit[FIND_TOO] != NULL) {
        char *first = changed;
        changed = ps_plan_text_replace(first, edit[FIND_TOO], edit[REPLACE_TOO]);
        free(first);
    }
    return changed;
}

static bool is_refused(const char *text, fault edit)
{
    char *changed = apply(text, edit);
    ps_buffer out = {0};
    const ps_status status = ps_plan_text_round_trip(ps_str_of(changed), &out);
    const char *message = status == PS_OK ? "accepted" : ps_error_message();
    const bool right = status == PS_INVALID && strstr(message, edit[MESSAGE]) != NULL;
    if (!right) {
        print_error("'%s' -> '%s'\n  expected '%s'\n  found    '%s'\n", edit[FIND], edit[REPLACE],
                    edit[MESSAGE], message);
    }
    ps_buffer_deinit(&out);
    free(changed);
    return right;
}

static void expect_refused(const char *path, fault *faults, size_t count)
{
    char *text = ps_graph_text_load(path);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += !is_refused(text, faults[i]);
    }
    free(text);
    assert_int_equal(wrong, 0);
}

static void test_faults_are_refused(void **state)
{
    (void)state;
    expect_refused(DECODE, DECODE_FAULTS, sizeof DECODE_FAULTS / sizeof *DECODE_FAULTS);
    expect_refused(PREFILL, PREFILL_FAULTS, sizeof PREFILL_FAULTS / sizeof *PREFILL_FAULTS);
    expect_refused(ROWS, ROWS_FAULTS, sizeof ROWS_FAULTS / sizeof *ROWS_FAULTS);
}

// Printing gives the file back, but for its comment.
static void test_plans_are_accepted_and_printed(void **state)
{
    (void)state;
    static const char *const PATHS[] = {DECODE, PREFILL, ROWS};
    for (size_t i = 0; i < 3; i++) {
        char *text = ps_graph_text_load(PATHS[i]);
        ps_buffer out = {0};
        ps_graph_text_require(ps_plan_text_round_trip(ps_str_of(text), &out), PATHS[i]);
        assert_string_equal(strchr(text, '\n') + 1, out.data);
        ps_buffer_deinit(&out);
        free(text);
    }
}

// The example of the documentation is a plan, printed.
static void test_documentation_is_right(void **state)
{
    (void)state;
    char *text = ps_graph_text_load("docs/plan-text.md");
    char *begin = strstr(text, "```\n");
    assert_non_null(begin);
    begin += 4;
    char *end = strstr(begin, "```\n");
    assert_non_null(end);
    *end = '\0';
    ps_buffer out = {0};
    ps_graph_text_require(ps_plan_text_round_trip(ps_str_of(begin), &out), "the example");
    assert_string_equal(begin, out.data);
    ps_buffer_deinit(&out);
    free(text);
}

// No plan has a barrier that it does not need.
static void test_every_barrier_is_needed(void **state)
{
    (void)state;
    static const char *const PATHS[] = {DECODE, PREFILL, ROWS};
    static const char WORD[] = "\nbarrier\n";
    for (size_t i = 0; i < 3; i++) {
        char *text = ps_graph_text_load(PATHS[i]);
        size_t count = 0;
        for (char *at = text; (at = strstr(at, WORD)) != NULL; at++, count++) {
            memcpy(at + 1, "#      ", 7);
            ps_buffer out = {0};
            ps_graph_text_expect_message(ps_plan_text_round_trip(ps_str_of(text), &out),
                                         "without a barrier");
            ps_buffer_deinit(&out);
            memcpy(at + 1, "barrier", 7);
        }
        assert_true(count > 5);
        free(text);
    }
}

// Plans that are right although no pass makes them.
static fault VARIANTS[] = {
    {NULL, "plan rows_max=8", "plan rows_max=1", "logits_max=4", "logits_max=0"},
    {NULL, "%x = embed", "barrier\n%x = embed"},
    {NULL, "%qn = rms_norm", "barrier\n%qn = rms_norm"},
    {NULL, "shared_bytes=46080", "shared_bytes=1099511627776"},
    {NULL, "%n3 = activation q8_row [T, 256] private offset_bytes=8192 row_bytes=384",
     "%n3 = activation q8_row [T, 256] shared offset_bytes=32512 row_bytes=384 part_unit=32 "
     "part_columns=256",
     "%n3 = quantise %r1 {layer=3 window=vector} split=all predicted_ns=113",
     "%n3 = quantise %r1 {layer=3 window=vector} split=columns\nbarrier"},
    {NULL, "%token_embd.weight = weight Q4_K [1000, 256]",
     "%token_embd.weight = weight Q4_K [1001, 256]"},
    // Behind a barrier that follows, and again once it has been read.
    {NULL, "barrier\n%dp = linear",
     "prefetch %down.weight {layer=2 site=mlp.down} split=units stream=2\nbarrier\n%dp = linear"},
    {NULL, "%r1.q8 = quantise",
     "prefetch %up.weight {layer=3 window=side} split=units stream=3\n%r1.q8 = quantise"},
    {NULL, "barrier\n%dp = linear",
     "prefetch %down.weight {layer=2 site=mlp.down window=barrier} split=units stream=2\n"
     "barrier\n%dp = linear"},
    {NULL, "barrier\n%n2.q8 = norm_quantise",
     "prefetch %gate.weight {layer=2} split=units stream=2\nbarrier\n%n2.q8 = norm_quantise"},
    // One wait goes on where another one ended.
    {NULL, "prefetch %gate.weight " GATE_PREFETCH,
     "prefetch %gate.weight " GATE_PREFETCH
     "\nprefetch %gate.weight {layer=3 bytes=100 skip=65536} split=units stream=2"},
    // What is declined stands there for people: it may be late, or said again.
    {NULL, "%r1.q8 = quantise",
     "prefetch %gate.weight {layer=3 bytes=9 reason=no_time} split=units stream=2\n%r1.q8 = "
     "quantise"},
    {NULL, "split=all predicted_ns=510", "split=all join=2 predicted_ns=510"},
    {NULL, "{softcap=30 window=vector} split=columns",
     "{softcap=30 window=vector} split=columns weight_bytes=18446744073709551615 row_ops=1"},
};

static void test_variants_are_accepted(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(DECODE);
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        char *changed = apply(text, VARIANTS[i]);
        ps_buffer out = {0};
        ps_graph_text_require(ps_plan_text_round_trip(ps_str_of(changed), &out),
                              VARIANTS[i][REPLACE]);
        ps_buffer_deinit(&out);
        free(changed);
    }
    free(text);
}

// ---- faults that have no text

static ps_plan_value *value_of(ps_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (strcmp(plan->values[i].is.name, name) == 0) {
            return &plan->values[i];
        }
    }
    fail_msg("no value '%s'", name);
    return NULL;
}

static void make_bad_operator(ps_plan *plan)
{
    plan->steps[3].op = PS_OP_COUNT;
}

static void make_bad_input(ps_plan *plan)
{
    plan->steps[3].inputs[1] = plan->value_count;
}

static void make_many_inputs(ps_plan *plan)
{
    plan->steps[3].input_count = PS_OP_INPUTS_MAX + 1;
}

static void make_bad_output(ps_plan *plan)
{
    plan->steps[3].output = plan->value_count;
}

static void make_bad_split(ps_plan *plan)
{
    plan->steps[3].split = PS_SPLIT_COUNT;
}

static void make_bad_base(ps_plan *plan)
{
    value_of(plan, "q")->is.alias_of = plan->value_count;
}

static void make_own_view(ps_plan *plan)
{
    value_of(plan, "q")->is.alias_of = (uint32_t)(value_of(plan, "q") - plan->values);
}

static void make_view_of_view(ps_plan *plan)
{
    value_of(plan, "k")->is.alias_of = (uint32_t)(value_of(plan, "q") - plan->values);
}

static void make_private_view(ps_plan *plan)
{
    value_of(plan, "q")->is_private = true;
}

static void make_shifted_view(ps_plan *plan)
{
    value_of(plan, "k")->part_offset += 64;
}

static void make_placed_view(ps_plan *plan)
{
    value_of(plan, "k")->row_bytes = 2048;
}

static void make_placed_weight(ps_plan *plan)
{
    value_of(plan, "norm")->offset_bytes = 64;
}

static void make_private_kv(ps_plan *plan)
{
    value_of(plan, "kv.1")->is_private = true;
}

static void make_nameless(ps_plan *plan)
{
    plan->values[3].is.name = NULL;
}

static void make_empty_name(ps_plan *plan)
{
    plan->values[3].is.name = "";
}

static void make_long_name(ps_plan *plan)
{
    plan->values[3].is.name = NAME_300;
}

static void make_twins(ps_plan *plan)
{
    value_of(plan, "kv.2")->is.name = "kv.1";
}

static void make_many_values(ps_plan *plan)
{
    plan->value_count = PS_PLAN_VALUES_MAX + 1;
}

static void make_many_steps(ps_plan *plan)
{
    plan->step_count = PS_PLAN_STEPS_MAX + 1;
}

static void make_no_steps(ps_plan *plan)
{
    plan->step_count = 0;
}

static void make_many_groups(ps_plan *plan)
{
    plan->kv_group_count = PS_KV_GROUPS_LIMIT + 1;
}

static void make_window_without_group(ps_plan *plan)
{
    plan->kv_windows[2] = 5;
}

static void make_one_rank(ps_plan *plan)
{
    plan->ranks = 1;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        plan->steps[i].attributes.ranks = plan->steps[i].attributes.ranks == 0 ? 0 : 1;
    }
}

static void make_other_ranks(ps_plan *plan)
{
    plan->ranks = 3;
    for (uint32_t i = 0; i + 1 < plan->step_count; i++) {
        plan->steps[i].attributes.ranks = plan->steps[i].attributes.ranks == 0 ? 0 : 3;
    }
}

typedef struct memory_fault {
    void (*make)(ps_plan *plan);
    const char *message;
} memory_fault;

static const memory_fault MEMORY_FAULTS[] = {
    {make_bad_operator, "step 3 to 'qkv': operator 31 is unknown"},
    {make_bad_input, "step 3, linear to 'qkv': operand 1 is value 55 of 55"},
    {make_many_inputs, "6 operands, 2 to 4"},
    {make_bad_output, "step 3, linear: output is value 55 of 55"},
    {make_bad_split, "split 5 is unknown"},
    {make_bad_base, "value 'q': view of value 55 of 55"},
    {make_own_view, "view of 'q', which is no activation with its own storage"},
    {make_view_of_view, "view of 'q', which is no activation with its own storage"},
    {make_private_view, "value 'q': is not shared out as what it is a view of"},
    {make_shifted_view, "value 'k': is not shared out as what it is a view of"},
    {make_placed_view, "value 'k': has a place, but no storage of its own"},
    {make_placed_weight, "value 'norm': has a place, but no storage of its own"},
    {make_private_kv, "value 'kv.1': is private or shared out by columns"},
    {make_nameless, "value 3: name of 0 bytes"},
    {make_empty_name, "value 3: name of 0 bytes"},
    {make_long_name, "value 3: name of 300 bytes"},
    {make_twins, "there are two values named 'kv.1'"},
    {make_many_values, "values 200001, 1 to 200000"},
    {make_many_steps, "steps 200001, 1 to 200000"},
    {make_no_steps, "steps 0, 1 to"},
    {make_many_groups, "kv groups 5, 0 to 4"},
    {make_one_rank, "step 16, linear_all_reduce to 'fused': a collective in a plan of one rank"},
    {make_other_ranks, "all_gather to 'logits': is of rank 0 of 2, the plan of rank 0 of 3"},
    {make_window_without_group, "window of a kv group that is not there 5"},
};

static void test_faults_in_memory_are_refused(void **state)
{
    (void)state;
    char *text = ps_graph_text_load(DECODE);
    for (size_t i = 0; i < sizeof MEMORY_FAULTS / sizeof *MEMORY_FAULTS; i++) {
        ps_arena arena;
        ps_arena_init(&arena, PS_PLAN_TEXT_ARENA_BYTES);
        ps_plan *plan = NULL;
        ps_graph_text_require(ps_plan_parse(ps_str_of(text), &arena, &plan), DECODE);
        MEMORY_FAULTS[i].make(plan);
        ps_graph_text_expect_message(ps_plan_verify(plan), MEMORY_FAULTS[i].message);
        ps_arena_deinit(&arena);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_are_accepted_and_printed),
        cmocka_unit_test(test_documentation_is_right),
        cmocka_unit_test(test_faults_are_refused),
        cmocka_unit_test(test_every_barrier_is_needed),
        cmocka_unit_test(test_variants_are_accepted),
        cmocka_unit_test(test_faults_in_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
