#!/bin/sh
# What telemetry and a view cost a step: `zerolab bench`, for steps from some milliseconds to seconds.
set -e
cd "$(dirname "$0")/../.."
for config in nano micro gpt2-bf16; do
    "${ZEROLAB:-build/release/zerolab}" bench configs/$config.json ${ROUNDS:+--rounds "$ROUNDS"}
    echo
done
