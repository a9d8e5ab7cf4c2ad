#!/usr/bin/env python3
"""Throws made-up command lines at `zerolab plan` and `zerolab simulate`. Run by hand, on a build with sanitizers:

    make SAN=address-undefined && tests/bench/fuzz_options.py [SECONDS [SEED]]        60 seconds, seed 1

Options and keys, their types and ranges come from options.def and config_keys.def; values fit, or are
wrong in their sign, size, spelling or type. Of every command line this must hold, and each for which it does not is printed, ready to be typed:

    the exit status is 0, 1 (with --fit and --advise: nothing fits), 2, 3 or 4, and no sanitizer reports
    no figure is nan, inf or the smallest integer, which stand for a sum that went wrong
    a failure is one line on standard error that begins with "zerolab: " (notes do not count); a success is none
    it takes at most LIMIT_S seconds of processor time; or LONG times that, if a note said that it may take minutes

A seed gives the same command lines. ZEROLAB=PROGRAM: another program; LIMIT_S=60: another limit. Exit status 1: it did not hold.
"""
import glob
import os
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAM = os.path.abspath(os.environ.get("ZEROLAB", os.path.join(ROOT, "build/address-undefined/zerolab")))
LIMIT_S = int(os.environ.get("LIMIT_S", "60"))  # with ASan all is some ten times slower, with UBSan 1.5 times
LONG = 6
VERBS = ("plan", "simulate")
LEFT_OUT = {"calibrate", "disk", "help", "version"}  # those measure for seconds, or only print
# The sanitizers end with a status of their own; memory for huge sizes is refused, as a machine would.
SANITIZERS = "exitcode=99:max_allocation_size_mb=4096:allocator_may_return_null=1:hard_rss_limit_mb=6000:detect_leaks=1"

STRANGE = ("", "0", "-1", "-0", "nan", "NaN", "inf", "-inf", "1e30", "-1e30", "1e400", "1e-400", "0.5", "2147483647",
           "2147483648", "-2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
           "18446744073709551616", "1" * 60, "x", "true", "false", "null", "none", "auto", "[]", "{}", "[1,2]", " 1",
           "1 ", "0x10", "1e3", "5e8", "256MiB", "1.5 GB", "1TB", "1ms", "%s%n", "\u00e9", "\x01", "a=b", "=", ",",
           "list", "-", "--", "/", "/nonexistent/file", "a" * 300)


def options():
    """(verb -> [(name, type, argument)]), from options.def."""
    rows = {verb: [] for verb in VERBS}
    with open(os.path.join(ROOT, "engine/cli/options.def"), encoding="utf-8") as file:
        for row in re.finditer(r'^OPTION\((\w+), \w+, [^,]+, "([^"]+)", (NULL|"[^"]*"), ([^"]+), "', file.read(), re.M):
            kind, name, argument, verbs = row.groups()
            for verb in VERBS:
                if name not in LEFT_OUT and ("V(%s)" % verb.upper() in verbs or verbs == "ALL"):
                    rows[verb].append((name, kind, argument.strip('"')))
    return rows


def keys():
    """[(path, type, default, range)], from config_keys.def."""
    with open(os.path.join(ROOT, "engine/config/config_keys.def"), encoding="utf-8") as file:
        text = file.read()
    rows = re.findall(r'^KEY\("([^"]+)", (\w+), [^,]+, "([^"]*)", "([^"]*)"', text, re.M)
    others = re.findall(r'^(?:FIXED|INERT|QUIET|SWITCH|OPAQUE|ALIAS)\("([^"]+)"', text, re.M)
    return rows + [(path, "ANY", "", "") for path in others]


def names(path, pattern):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return re.findall(pattern, file.read(), re.M)


OPTIONS, KEYS = options(), keys()
MODELS = names("engine/config/models.c", r'^    (?:GPT\(|LLAMA\(|\{)"([^"]+)"')
ACCOUNTINGS = (names("engine/advise/accountings.def", r'^ACCOUNTING\("([^"]+)"') +
               names("engine/advise/conventions.def", r'^CONVENTION\("[^"]*", "([^"]+)"'))
QUANTITIES = names("engine/advise/quantities.def", r"^QUANTITY\((\w+)")
ENDLESS = r"(?<![\w-])-?(nan|inf)(?![\w-])|-9,?223,?372,?036,?854,?775,?80[78]"
HARDWARE = ("t4", "v100", "a100", "h100", "h200", "b200")
CONFIGS = sorted(glob.glob(os.path.join(ROOT, "configs", "*.json")))
SIZES = ("model.layers", "model.hidden", "model.heads", "model.context", "model.vocabulary", "model.kv_heads",
         "model.ffn", "model.mlp_tiles", "model.tied", "model.architecture", "model.recompute",
         "data.sequence_length", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size",
         "zero_optimization.stage", "topology.ranks_per_node", "bf16.enabled",
         "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device")


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def one(self, many):
        return self.random.choice(many)

    def integer(self, low=1, high=1 << 62):
        """Small ones are as likely as large ones; half are products of few primes, so that they divide each other."""
        if self.chance(50):
            return max(low, min(high, self.one((1, 2, 3, 5, 7)) << self.random.randrange(0, 26)))
        return max(low, min(high, int(2 ** self.random.uniform(0, 62))))

    def count(self):
        most = self.one((4, 4, 4, 64, 64, 4096, 65536, 65536, 1 << 40))
        return self.one(STRANGE) if self.chance(8) else str(self.integer(1, most))

    def decimal(self):
        return self.one(STRANGE) if self.chance(30) else "%.6g" % (10 ** self.random.uniform(-12, 25))

    def value(self, key):
        path, kind, default, span = key
        if self.chance(4):
            return self.one(STRANGE)
        if "|" in span:
            return self.one(span.split("|"))
        if path == "model.name":
            return self.one(MODELS)
        if kind == "BOOL":
            return self.one(("true", "false"))
        if path in SIZES and path != "zero_optimization.stage" and self.chance(85):
            large = "model." in path or "length" in path
            return str(self.integer(1, self.one((4, 8, 64, 1024, 65536) if large else (4, 8))))
        if kind in ("INT", "INT64", "UINT64", "BYTES"):
            edges = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", span)
            if edges and self.chance(60):
                low, high = edges.groups()
                return self.one((low, high, str(self.random.randint(int(low), int(high)))))
            return str(self.integer(0)) + (self.one(("", "KB", "MiB", "GB", "TB")) if kind == "BYTES" else "")
        if kind in ("DOUBLE", "FLOAT", "SECONDS", "BANDWIDTH"):
            return self.decimal()
        return default if default and self.chance(50) else self.one(STRANGE)

    def key(self):
        wanted = self.one(SIZES) if self.chance(60) else self.one(KEYS)[0]
        return next(key for key in KEYS if key[0] == wanted)

    def spelled(self, path):
        if self.chance(3):
            return path[: self.random.randrange(len(path) + 1)]
        return path + self.one(STRANGE) if self.chance(1) else path

    def shape(self):
        """Sizes that fit each other."""
        heads = self.one((1, 2, 4, 8, 12, 16, 40, 96))
        sizes = {"layers": self.one((1, 2, 3, 12, 48, 96)), "heads": heads,
                 "hidden": heads * self.one((2, 16, 64, 128)), "kv_heads": self.one((1, heads)),
                 "context": self.one((1, 8, 512, 4096)), "vocabulary": self.one((2, 256, 50257, 128256)),
                 "architecture": self.one(("gpt2", "llama", "qwen2", "opt", "bloom"))}
        some = self.random.sample(sorted(sizes), self.random.randrange(1, 8))
        return [word for name in some for word in ("--set", "model.%s=%s" % (name, sizes[name]))]

    def setting(self):
        key = self.key()
        return "%s=%s" % (self.spelled(key[0]), self.value(key)) if self.chance(98) else self.one(STRANGE)

    def sweep(self):
        key = self.key()
        values = [self.value(key) for _ in range(self.random.randrange(1, 6))]
        if self.chance(25):
            low, step = self.integer(0, self.one((4, 1 << 62))), self.one(("", "", "+", "*", "-"))
            high = low + self.integer(0, self.one((8, 1 << 62)))
            values = ["%d..%d%s" % (low, high, step and step + self.one((self.count(), "2", "9" * 18)))]
        return "%s=%s" % (self.spelled(key[0]), ",".join(values))

    def argument(self, name, argument):
        if self.chance(2):
            return self.one(STRANGE)
        makers = {
            "ranks": self.count, "steps": lambda: self.one(("1", "2", "3", self.count())), "set": self.setting,
            "sweep": self.sweep,
            "seed": self.count, "tokens": self.decimal, "price": self.decimal, "iteration-seconds": self.decimal,
            "model": lambda: self.one(MODELS), "hardware": lambda: self.one(HARDWARE),
            "accounting": lambda: self.one(ACCOUNTINGS),
            "psi": lambda: self.decimal() + self.one(("", "B", "M", "T")) if self.chance(50) else str(self.integer()),
            "with": lambda: ",".join("%s=%s" % (self.one(QUANTITIES), self.decimal()) for _ in range(self.one((1, 1, 2, 4)))),
            "slow": lambda: "%s:%s" % (self.count(), self.decimal()), "record-ranks": lambda: "0-" + self.count(),
            "frame": lambda: self.count() + "x" + self.count(), "as": lambda: self.one(argument.split("|")),
            "output": lambda: self.one(("out", "out", "none/out", "/dev/full", ".")),
        }
        return makers[name]()

    def line(self):
        verb = self.one(VERBS)
        known = {name: (name, kind, argument) for name, kind, argument in OPTIONS[verb]}
        chosen = [] if verb == "plan" else [known["hardware"]] * self.chance(95)
        if verb == "plan" and self.chance(75):
            chosen += [known[name] for name in self.one((
                ("advise", "hardware"), ("advise", "hardware"), ("sweep",), ("sweep", "hardware"), ("sweep", "sweep"),
                ("accounting",),
                ("accounting", "with"), ("psi",), ("explain",), ("fit",), ("schedule",)))]
        model = self.one(("operand", "operand", "model", "model", "model", "model", "set", "set", "none"))
        chosen += [known["model"]] * (model == "model") + [known["set"]] * self.one((0, 0, 1, 1, 2, 4))
        chosen += [known["ranks"]] * self.chance(60) + [known["json"]] * self.chance(30)
        chosen += [self.one(list(known.values())) for _ in range(self.one((0, 0, 0, 0, 0, 1, 1, 3)))]
        self.random.shuffle(chosen)
        words = [verb]
        for name, kind, argument in chosen:
            words += ["--" + name] + ([] if kind == "FLAG" else [self.argument(name, argument)])
        if model == "set" and self.chance(70):
            words += self.shape()
        return words + [self.one(CONFIGS)] * (model == "operand")


def judge(words, status, seconds, errors, output):
    """What does not hold, or None."""
    lines = [line for line in errors.split("\n") if line.startswith("zerolab: ") and not line.startswith("zerolab: note: ")]
    if re.search(r"runtime error:|Sanitizer", errors) or status == 99:
        return "a sanitizer reports: " + next(iter(re.findall(r".*(?:runtime error:|Sanitizer).*", errors)), "")
    if seconds > LIMIT_S * (LONG if "this may take minutes" in errors else 1):
        return "takes %d s" % seconds
    may_not_fit = "--fit" in words or "--advise" in words
    if status not in (0, 2, 3, 4) and not (status == 1 and may_not_fit):
        return "exit status %d" % status
    strange = "--explain" not in words and re.search(ENDLESS, output)
    if strange:
        return "prints %s" % strange.group(0)
    if len(lines) != (status >= 2):
        return "%d lines of errors with exit status %d" % (len(lines), status)
    return None


def limit_time():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S * LONG, LIMIT_S * LONG + 1))


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    maker = Maker(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    environment = dict(os.environ, LC_ALL="C.UTF-8", XDG_CONFIG_HOME="/nonexistent", ASAN_OPTIONS=SANITIZERS,
                       LSAN_OPTIONS="exitcode=99", UBSAN_OPTIONS="exitcode=99:print_stacktrace=1")
    end, counts, found, slowest = time.monotonic() + seconds, {}, 0, (0.0, [])
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            words, began = maker.line(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            ran = subprocess.run([PROGRAM] + words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit_time)
            output, errors = (text.decode("utf-8", "replace") for text in (ran.stdout, ran.stderr))
            took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
            why = judge(words, ran.returncode, took, errors, output)
            counts[ran.returncode] = counts.get(ran.returncode, 0) + 1
            slowest = max(slowest, (took, words))
            if why:
                found += 1
                print("%s\n    zerolab %s" % (why, shlex.join(words)), flush=True)
    told = ", ".join("%s: %d" % item for item in sorted(counts.items(), key=str))
    print("%d command lines (exit status %s), %d findings; the slowest took %.1f s:\n    zerolab %s"
          % (sum(counts.values()), told, found, slowest[0], shlex.join(slowest[1])))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
