#!/bin/sh
# From what `make bench` printed (files, or standard input) the rows of the README's table "What it costs", ready to paste.
# A row stands only for what was measured; llm.c is in it where bench_gpt was given its folder (-l).
cat "$@" | awk '
function thousands(n) { n = sprintf("%.0f", n); return length(n) > 3 ? substr(n, 1, length(n) - 3) "," substr(n, length(n) - 2) : n }

$2 ~ /^(fp32|bf16),$/ && / tokens\/s, loss / { # bench_gpt
    type = $2; sub(/,/, "", type)
    what = $1 ", " $3 " " $4 " one rank with " $5 " threads"; sub(/, one/, ", one", what)
    match($0, /[0-9.]+ tokens\/s/); rate[type] = substr($0, RSTART, RLENGTH) + 0
}
/only products .*: ratio / { match($0, /ratio [0-9.]+/); loop[type] = substr($0, RSTART + 6, RLENGTH - 6) }
/^  llm\.c .*x its tokens/ { match($0, /[0-9.]+x its/); llmc[type] = substr($0, RSTART, RLENGTH) + 0 }

/: median of [0-9]+ steps at each stage/ { stages = $1; sub(/:$/, "", stages) } # bench_stages
/^  stage [123]: .*stage 0 \/ this = / { match($0, /this = [0-9.]+/); over = over (over ? ", " : "") sprintf("%.2f", substr($0, RSTART + 7, RLENGTH - 7)) }

/MiB in all, [0-9]+ MiB a rank/ { size = $1 " MiB in all, " $5 " MiB a rank, on " $9 " ranks"; sizes[++count] = size } # bench_comm
/^reduce-scatter fp32/ { match($0, /[0-9.]+x/); reduce[size] = substr($0, RSTART, RLENGTH - 1) }
/^all-gather +fp32/ { match($0, /[0-9.]+x/); gather[size] = substr($0, RSTART, RLENGTH - 1) }

/^  (attention|full, every)/ && /\|/ { # bench_recompute: name ... | predicted ms measured ms off | ...
    split($0, part, "|"); split(part[2], word, " "); off = word[5] + 0; if (off < 0) off = -off
    if (off > worst) worst = off; seen++
}

END {
    print "| | |"
    print "|---|---|"
    if (rate["fp32"] && rate["bf16"]) {
        row = thousands(rate["fp32"]) " tokens/s in fp32, " thousands(rate["bf16"]) " in bf16"
        if (llmc["fp32"] && llmc["bf16"]) row = row ": " llmc["fp32"] " and " llmc["bf16"] " times llm.c'\''s `train_gpt2`"
        print "| " what " | " row " |"
        print "| ... against a loop of just its matrix products and AdamW | " loop["fp32"] " (fp32), " loop["bf16"] " (bf16)" " |"
    }
    if (over) print "| " stages ", four ranks: stage 0'\''s forward + backward + waits for communication over stage 1'\''s, 2'\''s, 3'\''s | " over " |"
    for (i = 1; i <= count; i++)
        print "| reduce-scatter and all-gather, " sizes[i] ", against Open MPI'\''s | " reduce[sizes[i]] " and " gather[sizes[i]] " times as fast |"
    if (seen) printf "| time of what recomputation makes again, predicted from the forward times of the same run | within %.1f %% |\n", worst
}'
