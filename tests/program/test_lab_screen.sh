#!/bin/bash
# A lab as a learner plays it, in a real terminal: wrong answers, hints, quitting in the middle and coming back, reset; as a
# page at 80x24 and beside the view at 120x40.
. "$(dirname "$0")/../support/screen.sh"
export XDG_STATE_HOME=$work/state

begin() { start "$1" "$2" TERM=screen-256color XDG_STATE_HOME="$work/state" -- "$zerolab" lab memory-wall; }

begin 80 24
waits_for "the first question is asked before anything has run" 'Enter: type your prediction in MB'
keys n
waits_for "n does not move on by itself" 'n once more skips'
keys '!'
waits_for "a nudge" '> What does one parameter cost'
keys '!'
keys '!'
waits_for "formula and answer follow" '16 bytes x 834,304 = 13.35 MB'
keys '?'
waits_for "? shows the help in place of the page" '!16 bytes x 834,304'
keys q
waits_for "... which comes back when it is closed" '16 bytes x 834,304 = 13.35 MB'
keys Enter
waits_for "the prediction is typed" 'your prediction in MB'
keys Enter
waits_for "an empty one is no number" 'give a number in MB; Esc leaves'
keys Escape
comes 'Enter: type your prediction in MB'
keys Space
waits_for "the run does not go on before the prediction" 'your prediction comes first'
keys K
comes 'nothing yet: no step has begun'
keys '.'
waits_for "... nor from the view" 'your prediction comes first'
keys n
waits_for "n in the view says how to come back" 'K goes back to the lab'
keys :
comes 'command'
keys 's' 'e' 't' Space 'gradient_clipping=2' Enter
waits_for "... nor is it made another one" 'your prediction comes first'
keys K
comes 'Enter: type your prediction in MB'
keys '3'
waits_for "a digit begins the prediction" 'your prediction in MB +3( |$)'
keys '/' '2' Enter
waits_for "what is no number stays, to be mended" '3/2: give a number in MB'
comes 'your prediction in MB +3/2( |$)'
keys C-u '3' ',' '3' Enter
waits_for "a wrong prediction, with a decimal comma, is answered with the number ..." 'You said 3.30 MB; it is 13.35 MB'
waits_for "... with what one may have thought ..." 'parameters alone'
waits_for "... and with the explanation" 'Three of these four copies'
keys K
waits_for "K shows the view that the step is about" 'device memory of rank 0'
keys K
comes 'You said'
keys U
waits_for "U asks before it begins the step anew" 'U once more begins'
keys U
waits_for "... and begins it anew" 'Enter: type your prediction in MB'
keys Enter
comes 'your prediction in MB'
keys '1' '3' Enter
waits_for "a right prediction is said to be right" 'Right: it is 13.35 MB'
keys J
waits_for "J shows the place on the timeline, and the view for it" 'within step 2; F goes on from there, K is the lab'
keys F
keys K
comes 'Right: it is'
keys n
waits_for "n goes to the next step" 'choose: a to c'
keys b
waits_for "a wrong choice has a reply" 'No. They are two moments'
keys n
waits_for "the run is started anew with another budget" 'budget|14.50 MB'
comes 'choose: a to c'
keys b
waits_for "memory runs out for real" 'OUT OF MEMORY'
comes 'n goes on'
keys I
waits_for "its report takes the keys" 'OUT OF MEMORY +Enter makes'
keys K
waits_for "... until K gives them to the lab" 'OUT OF MEMORY +K, then Enter makes'
keys 0
waits_for "a refused command is answered where it was typed" 'stage=0 refused: this is the stage already'
waits_for "... beside the keys that lead out of it" '[?] help  q quit'
keys d
waits_for "a letter does nothing to a view that cannot be seen" 'nothing to choose here'
keys q
waits_for "quitting says how far one is" '2 of 7 parts are right|3 of 7 parts are right'

begin 120 40
waits_for "coming back goes on at the same step" 'part 3 of 7'
comes 'choose: a to c'
waits_for "the lab stands beside the view" 'lab: The memory wall.*│'
keys b
comes 'n goes on, x asks'
keys q
comes 'the same command goes on'
begin 80 24
waits_for "an answered step says so when one comes back to it" 'you said b before; n goes on'
keys n
waits_for "... and is not open" 'part 4 of 7'
keys q
comes 'the same command goes on'
"$zerolab" lab reset memory-wall
begin 120 40
comes 'Enter: type your prediction in MB'
keys 1 , 5 0 0 Enter
waits_for "beside the view: how a comma was read has room" '1,500 is read as 1500, not 1\.500 '
comes 'You said 1,500 MB' && keys q
comes 'the same command goes on'
begin 120 40
waits_for "... and so has what was said before" 'you said 1,500 MB before; n goes on '
keys q
comes 'the same command goes on'
"$zerolab" lab reset memory-wall
begin 80 24
waits_for "after a reset it begins at the beginning" 'part 1 of 7'
keys q

# A lab about recorded traces, as a lesson is made of it.
start 80 24 TERM=screen-256color XDG_STATE_HOME="$work/state" -- "$zerolab" lab wrong-prefetch --presenter --from 4 --record "$work/lesson"
waits_for "a lab about a trace begins when the trace is read" 'choose: a to d'
keys 2
waits_for "there is no run to command, and a line says so" 'about a recorded trace: there is no run to command'
keys y
comes 'n goes on, x asks'
keys n
waits_for "a part may open another trace, and what was kept stays" 'The same job, mended'
comes 'y shows it'
keys y
waits_for "... which its answer is of" '3 gathers instead of 21'
keys q
comes 'recorded:'
start 80 24 TERM=screen-256color -- "$zerolab" replay "$work/lesson"
waits_for "its lesson begins with a page, though all steps come before it" 'Which key'
keys n n
waits_for "... and goes on with the page of the other trace" 'The same job, mended'
keys q
finish
