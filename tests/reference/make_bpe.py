#!/usr/bin/env python3
"""Makes tests/reference/bpe: a small GPT-2-style vocabulary trained on data/default.txt by Hugging Face's tokenizers, and
what transformers' GPT2Tokenizer makes of texts that are hard on it. Needed by nobody but who wants to make them anew:

    python3 tests/reference/make_bpe.py

cases.txt has two lines a case: the text's bytes in hexadecimal, and its tokens. With other files as arguments (vocab.json merges.txt TEXT)
it prints the tokens of TEXT instead, one a line, to compare with `zerolab data encode`."""
import os, sys

from transformers import GPT2Tokenizer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "tests", "reference", "bpe")
TOKENS = 640

CASES = [
    "", " ", "  ", "\n", "\n\n\n", "a", " a", "  a", "a  ", "a \n b", "Hello, world!", "hello world  and   more    space\t\ttabs \n",
    "I'm you're he's we've they'll I'd can't 'S 'LL don''t 's's 'tis", "x'y 'z' ''s", "1234567890 3.14159 1,000,000 0x7fff ½ ² Ⅷ ٣",
    "naïve café Straße ÅÄÖ ñ e\u0301", "Привет, мир! Ελληνικά עברית العربية", "你好，世界。日本語テキスト 한국어", "🙂👩‍👩‍👧‍👦🏳️‍🌈 emoji 👍🏽!",
    "\u00a0nbsp\u00a0 \u2003em\u2003 \u3000wide\u3000x \u1680ogham \u200bzero\u200b \u180emvs", "line\u2028sep\u2029para\u0085nel",
    "\x1c\x1d\x1e\x1f control \x00\x01\x02 \x7f", "\ufeffbom", "tab\tafter\vvt\fff\rcr\r\ncrlf", "#include <stdio.h>\n\nint main(void)\n{\n    return 0;\n}\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the the the  the", "ﬁ ligature ﬀ ǅ Ǆ", "𝕳𝖊𝖑𝖑𝖔 𐍈 𠜎", "\u0301combining first", "a\u200db", "!!!???...---___",
    "https://example.com/a?b=c&d=%20#e", "{\"json\": [1, 2.5e-3, null]}", "  leading and trailing  ", "mixed123abc456", "‘quotes’ “curly” — dash …",
]


def train():
    from tokenizers import ByteLevelBPETokenizer
    os.makedirs(FOLDER, exist_ok=True)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([os.path.join(ROOT, "data", "default.txt")], vocab_size=TOKENS, min_frequency=2, special_tokens=["<|endoftext|>"])
    tokenizer.save_model(FOLDER)


def ids(tokenizer, text):
    return tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))


def main():
    if len(sys.argv) == 4:
        tokenizer = GPT2Tokenizer(sys.argv[1], sys.argv[2])
        with open(sys.argv[3], encoding="utf-8", newline="") as file:
            print("\n".join(map(str, ids(tokenizer, file.read()))))
        return
    train()
    tokenizer = GPT2Tokenizer(os.path.join(FOLDER, "vocab.json"), os.path.join(FOLDER, "merges.txt"))
    with open(os.path.join(FOLDER, "cases.txt"), "w", encoding="ascii") as file:
        for text in CASES:
            file.write(text.encode().hex() + "\n" + " ".join(map(str, ids(tokenizer, text))) + "\n")


main()
