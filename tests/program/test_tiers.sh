#!/bin/bash
# The tiers of a run that sends states away, in a real terminal: host memory, then NVMe by a typed command, slowly, and back; and
# that what is shown live is what its recording shows.
. "$(dirname "$0")/../support/screen.sh"

start 80 24 NO_COLOR=1 -- "$zerolab" train "$root/configs/nano-stage3.json" -n 2 --trace live.zlt --steps 100000 \
    --set zero_optimization.offload_optimizer.nvme_path="$work" --at 4:pause
waits_for "pauses before step 4" 'PAUSED'
waits_for "without offload bars are of the device" 'device memory, fullest'
keys H
waits_for "H shows the tiers" 'tiers of rank 0 .of 2., fullest instants of step 3'
waits_for "host and NVMe are not used" 'host +not used +NVMe +not used'
waits_for "and it says how they would be" 'set zero_optimization.offload_optimizer.device=cpu'

keys : 'set zero_optimization.offload_optimizer.device=cpu' Enter
keys .
waits_for "as it says: states go to the host" 'device -> host +[0-9.]+ [kMG]i?B +[0-9.]+ [kMG]i?B/s +100 % best +- +-'
waits_for "with its link, as little as is known of it" 'NVMe -> host +-'

keys : 'set zero_optimization.offload_optimizer.device=nvme' Enter
keys .
waits_for "to NVMe: requests have depth and latency" 'NVMe -> host +[0-9.]+ [kMG]i?B +[0-9.]+ [kMG]i?B/s +[0-9]+ % best +[0-9.]+ +[0-9.]+ [um]s'
waits_for "all three tiers hold something" '^ now .* now +[0-9.]+ [kM]i?B .*now +[1-9][0-9.]* [kM]i?B'
settled | body >live.nvme # paused, as the end of a step is in a recording
keys M
waits_for "the memory view has all three" 'NVMe memory of rank 0'
keys M Escape
waits_for "the overview has bars of all three" 'memory of device, host, NVMe'
waits_for "and a line for each link" 'host►NVMe [0-9.]+ [kM]i?B [0-9.]+ [kMG]i?B/s'
at=$(step)

keys H
keys : 'set topology.links.nvme.bandwidth=50MB' Enter
keys .
waits_for "a paced link is the limit" 'host -> NVMe +[0-9.]+ [kM]i?B +[0-9.]+ [kM]i?B/s +[0-9]+ % paced'
keys '<' '<' '<' # ten times as slow
keys Space
waits_for "slowly: what moves is seen to move" '(═{5,}►|◄═{5,})'
waits_for "and rates are what they would be" 'slow motion ×10 taken out of rates'
keys q
waits_for "q leaves" 'status 0'

"$zerolab" replay live.zlt --frame 80x24 --view tiers --at "step:$at" | body >replayed
diff live.nvme replayed | sed 's/^/# /'
cmp -s live.nvme replayed
ok "the live view equals the replayed one" $?
ls "$work" | grep -q zerolab-nvme
ok "no file is left on the disk" $((! $?))
finish
