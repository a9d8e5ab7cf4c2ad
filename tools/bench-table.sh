#!/bin/sh
# From what `make bench` printed (files, or standard input) the rows of the table in docs/BENCHMARKS.md, ready to paste; the last
# two of that table, about memory, are what tests hold every run to. A row stands only for what was measured; llm.c is in it where
# bench_gpt was given its folder (-l). Ratios over several runs, disks or speeds are told as the least and the most.
cat "$@" | awk '
function found(pattern) { return match($0, pattern) ? substr($0, RSTART, RLENGTH) : "" }
function widen(name, value) {
    if (!(name in least) || value < least[name]) least[name] = value
    if (!(name in most) || value > most[name]) most[name] = value
}
function range(name) { return least[name] == most[name] ? sprintf("%.2f", least[name]) : sprintf("%.2f to %.2f", least[name], most[name]) }
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

/ rounds of [0-9]+ steps before each audience/ { model = $1; sub(/,$/, "", model) } # bench_telemetry, of which the first stands
/^  a trace file .*ms .*\(/ && !recorded { recorded = $6; modelled = model }
/^  a record takes / && !lane { lane = $4; writer = $10 }
/^  a view of .* takes .* of a core/ && !view[$4] { view[$4] = $6 }

/MiB in all, [0-9]+ MiB a rank/ { size = $1 " MiB in all, " $5 " MiB a rank, on " $9 " ranks"; sizes[++count] = size } # bench_comm
/^reduce-scatter fp32/ { match($0, /[0-9.]+x/); reduce[size] = substr($0, RSTART, RLENGTH - 1) }
/^all-gather +fp32/ { match($0, /[0-9.]+x/); gather[size] = substr($0, RSTART, RLENGTH - 1) }

/^  (attention|full, every)/ && /\|/ { # bench_recompute: name ... | predicted ms measured ms off | ...
    split($0, part, "|"); split(part[2], word, " "); off = word[5] + 0; if (off < 0) off = -off
    if (off > worst) worst = off; seen++
}

/^[0-9]+ MiB, best of [0-9]+$/ { gigabytes = sprintf("%.1f", $1 * 1.048576 / 1000) } # bench_checkpoint
/^  disk writes / { widen("save", found("[0-9]+ %") / 100) }
/^  disk reads / { widen("load", found("[0-9]+ %") / 100) }
/^  [0-9]+ steps: .* s with a save, / { background = $1; widen("background", 1 + found("[-+][0-9.]+ %") / 100) }

/ pcie\/s +forward / { offload = 1; next } # bench_offload: a table, and another of delayed updates
offload && $NF ~ /^[0-9]+\.[0-9][0-9][0-9]$/ && NF >= 11 { widen($1 == "delayed" ? "delayed" : "offload", $NF); next }
{ offload = 0 }

/^[a-z0-9]+ +[0-9]+ threads? +update .* ratio / { # bench_adam: the widest instructions come first
    if (isa == "") isa = $1
    if ($1 == isa && $2 == 1) widen("adam", $NF)
}
/^ours .* fio .* %/ { widen("fio", found("[0-9]+ %") / 100) } # bench_storage

/million records, [0-9]+ states/ { opened = $1 } # bench_open
/^  replay --frame / { sub(/:.*/, "", $5); if (!shown[$5]) shown[$5] = $9 " ms, " $(NF - 1) " MB" }
/^redraw at / { redraws = redrawn = 1; next }
!/^  [a-z]+ / { redraws = 0 }
redraws && NF == 7 { for (i = 3; i <= 7; i += 2) if ($i + 0 > longest) longest = $i + 0 }

END {
    print "| | |"
    print "|---|---|"
    if (rate["fp32"] && rate["bf16"]) {
        row = thousands(rate["fp32"]) " tokens/s in fp32, " thousands(rate["bf16"]) " in bf16"
        if (llmc["fp32"] && llmc["bf16"]) row = row ": " llmc["fp32"] " and " llmc["bf16"] " times llm.c'\''s `train_gpt2`"
        print "| " what " | " row " |"
        print "| ... against a loop of just its matrix products and AdamW | " loop["fp32"] " (fp32), " loop["bf16"] " (bf16)" " |"
    }
    if (lane) {
        print "| telemetry, in processor time: a record; a live view of 80x24, of 200x60 | " lane " ns of its lane and " writer " ns of the writer; " view["80x24"] " and " view["200x60"] " % of a core |"
        print "| a step of " modelled " on record, over one to which nobody listens | " recorded " |"
    }
    if (over) print "| " stages ", four ranks: stage 0'\''s forward + backward + waits for communication over stage 1'\''s, 2'\''s, 3'\''s | " over " |"
    for (i = 1; i <= count; i++)
        print "| reduce-scatter and all-gather, " sizes[i] ", against Open MPI'\''s | " reduce[sizes[i]] " and " gather[sizes[i]] " times as fast |"
    if ("save" in least) print "| a checkpoint of " gigabytes " GB in shards, saved and loaded, against the disk'\''s own sequential rate | " range("save") " and " range("load") " |"
    if (background) print "| " background " steps with a save in the background, against as many without | " range("background") " |"
    if ("offload" in least) print "| optimizer offloaded, over forward + max(backward, down) + norm + max(update, up) + last tile, several speeds of the bus | " range("offload") ", with updates delayed " range("delayed") " |"
    if (isa) print "| the host'\''s AdamW against a loop that only reads and writes as many streams, " isa " | " range("adam") " on one core |"
    if ("fio" in least) print "| states on NVMe, read and written at once, against `fio` | " range("fio") " |"
    if (opened) print "| a frame of a recording of " opened " million records, in processor time, and peak memory: at its end; at a step | " shown["end"] "; " shown["step"] " |"
    if (redrawn) printf "| a view drawn at 200x60: the slowest of all, at any zoom | %.1f ms |\n", longest
    if (seen) printf "| time of what recomputation makes again, predicted from the forward times of the same run | within %.1f %% |\n", worst
}'
