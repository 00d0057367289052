"""Makes test/fixtures/tokenizer-forms.json: small tokenizer files, each with one thing that files may say, and what the reference library does with them.

Needs the PyPI package tokenizers (0.23.3 was used). Run from the repository root: python3 test/support/model/make-tokenizer-forms.py
"""
import base64
import copy
import json
import pathlib
import struct

from tokenizers import Tokenizer

TEXTS = [
    "", "a", "ab", "a b", " a", "a ", "  a  b ", "a\nb", "\ta", "aé", "é", "e\u0301a", "A B", "ΑΣ ΣΑ", "İa", "ß", "\ufeffa", "a\ufeff b", "a\u0085b",
    "日本 a", "😊", "a😊b", "привет a", "１２ 3", "a,b.c", "__a_b", "a\u200db", "ﬁ a", "<t>a<t>", "a <t> b", "x<t>y", "xTy T", "<T>a", "a a a",
    "<0x0A>", "<s>a", "é<s>é b", "\u00a0a\u00a0", "नमस्ते a", "𝐚a", "a\0b", "$a $1", "aaaaaa bbbbbb",
]


def token(content, id=None, **flags):
    made = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {**made, **flags}


UNK = token("<unk>", special=True)
BOS = token("<s>", special=True)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = ["a", "b", "c", "e", "x", "y", "T", "A", "B", "ab", "aa", ".", ",", "_", "é", "1", "2", "3", "日", "本", "σ", "ς", "Σ", "i", "s", "t", "f", "п", "р", "$", " ", "\n", "▁", "▁a", "▁b", "aaa"]


def file(model, added=(UNK, BOS), **parts):
    vocab = model["vocab"]
    known = {entry[0]: i for i, entry in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
    placed = []
    for each in added:
        id = known.setdefault(each["content"], len(known))
        placed.append({**each, "id": id})
    empty = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return {**empty, "added_tokens": placed, **parts, "model": model}


def unigram(extra=(), unk_id=0, **fields):
    names = ["<unk>", "<s>", *LETTERS, *extra]
    vocab = [[name, 0.0 if i < 2 else -1.5 - (i % 7) / 3 - (0 if len(name) < 5 else 9)] for i, name in enumerate(names)]
    return {"type": "Unigram", "unk_id": unk_id, "vocab": vocab, **fields}


def word_level(extra=()):
    names = ["<unk>", "<s>", "a", "b", "é", "日本", "A", "B", "привет", "c", "x", "y", "T", "a,b", *extra]
    return {"type": "WordLevel", "vocab": {name: i for i, name in enumerate(names)}, "unk_token": "<unk>"}


def word_piece(**fields):
    names = ["<unk>", "<s>", "a", "b", "##a", "##b", "##é", "é", "日", "##本", "A", "x", "##y", "##<", "c", "##c", "e", "##e", "i", "s"]
    return {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 5, "vocab": {name: i for i, name in enumerate(names)}, **fields}


def bpe(extra=(), **fields):
    names = ["<unk>", "<s>", *LETTERS, *extra]
    merges = ["a a", "a b", "▁ a", "▁ b", "aa a"]
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {name: i for i, name in enumerate(names)}, "merges": merges, **fields}


def byte_level_bpe(**fields):
    letters = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256)]] + [chr(256 + i) for i in range(68)]
    names = ["<unk>", "<s>", *letters, "aa", "ab", "Ġa"]
    return {**bpe(), "unk_token": None, "vocab": {name: i for i, name in enumerate(names)}, "merges": ["a a", "a b", "Ġ a"], **fields}


def seq(name, *steps):
    kind = {"normalizers": "Sequence", "pretokenizers": "Sequence", "decoders": "Sequence", "processors": "Sequence"}[name]
    return {"type": kind, name: list(steps)}


def charsmap(table):
    """A double-array trie as Darts-clone lays it out, built without packing: one block of 256 units for each node."""
    targets, text = {}, b""
    for key, value in table.items():
        targets[key.encode()] = len(text)
        text += value.encode() + b"\0"
    nodes = {b""}
    for key in targets:
        nodes.update(key[:i] for i in range(len(key) + 1))
    order = sorted(nodes, key=lambda node: (len(node), node))
    block = {node: (i + 1) * 256 for i, node in enumerate(order)}
    units = [0] * ((len(order) + 2) * 256)
    where = {b"": 0}
    for node in order:
        at = where[node]
        # children of a node lie at its position xor offset, xor their byte; the value at byte 0
        offset = at ^ block[node]
        assert offset < 1 << 21
        label = node[-1] if node else 0
        units[at] = (offset << 10) | ((1 << 8) if node in targets else 0) | label
        if node in targets:
            units[at ^ offset] = (1 << 31) | targets[node]
        for child in order:
            if len(child) == len(node) + 1 and child.startswith(node):
                where[child] = at ^ offset ^ child[-1]
    trie = struct.pack(f"<{len(units)}I", *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + text).decode()


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
TO_SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PLAIN = {"pre_tokenizer": {"type": "WhitespaceSplit"}}
LOWER = {"type": "Lowercase"}


def added_with(**flags):
    return (UNK, BOS, token("<t>", **flags), token("T", **flags))


def normalized(normalizer, model=None, **parts):
    return file(model or unigram(), normalizer=normalizer, **parts)


FORMS = {
    "unigram": file(unigram()),
    "unigram, byte fallback": file(unigram(BYTES, byte_fallback=True), pre_tokenizer=METASPACE, decoder=seq("decoders", TO_SPACE, FALLBACK, FUSE, STRIP)),
    "unigram, byte fallback without bytes": file(unigram(BYTES[:64], byte_fallback=True), pre_tokenizer=METASPACE),
    "unigram, metaspace decoder": file(unigram(), pre_tokenizer=METASPACE, decoder=METASPACE),
    "unigram, metaspace never": file(unigram(), pre_tokenizer={**METASPACE, "prepend_scheme": "never"}, decoder={**METASPACE, "prepend_scheme": "never"}),
    "unigram, metaspace first": file(unigram(), pre_tokenizer={**METASPACE, "prepend_scheme": "first"}),
    "unigram, words and metaspace": file(unigram(), pre_tokenizer=seq("pretokenizers", {"type": "WhitespaceSplit"}, METASPACE), decoder=METASPACE),
    "word level, whitespace": file(word_level(), pre_tokenizer={"type": "Whitespace"}),
    "word level, whitespace split": file(word_level(), **PLAIN),
    "word level, nothing": file(word_level()),
    "word level, bert": file(word_level(), pre_tokenizer={"type": "BertPreTokenizer"}),
    "word level, delimiter": file(word_level(), pre_tokenizer={"type": "CharDelimiterSplit", "delimiter": "a"}),
    "word level, fixed length": file(word_level(), pre_tokenizer={"type": "FixedLength", "length": 2}),
    "word level, scripts": file(word_level(), pre_tokenizer={"type": "UnicodeScripts"}),
    "word level, digits": file(word_level(["1", "2", "3", "１２"]), pre_tokenizer=seq("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": False})),
    "word level, punctuation": file(word_level([".", ",", "_", "$"]), pre_tokenizer={"type": "Punctuation", "behavior": "Isolated"}),
    "word piece": file(word_piece(), pre_tokenizer={"type": "BertPreTokenizer"}),
    "word piece, decoder": file(word_piece(), pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}),
    "bpe": file(bpe()),
    "bpe, byte fallback": file(bpe(BYTES, byte_fallback=True, fuse_unk=True), normalizer=seq("normalizers", {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}), decoder=seq("decoders", TO_SPACE, FALLBACK, FUSE, STRIP)),
    "bpe, bytes that are text": file(bpe(BYTES), decoder=seq("decoders", TO_SPACE, FUSE)),
    "bpe, fused unknown": file(bpe(fuse_unk=True)),
    "bpe, suffix": file(bpe(end_of_word_suffix="</w>"), **PLAIN),
    "byte level": file(byte_level_bpe(), pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL),
    "byte level, prefix": file(byte_level_bpe(), pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}, decoder=BYTE_LEVEL),
    "byte level, words and prefix": file(byte_level_bpe(), pre_tokenizer=seq("pretokenizers", {"type": "WhitespaceSplit"}, {**BYTE_LEVEL, "add_prefix_space": True}), decoder=BYTE_LEVEL),
    "byte level, added letter": file(byte_level_bpe(), (UNK, BOS, token("é")), pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL),
    "byte level, normalizer": file(byte_level_bpe(), normalizer={"type": "ByteLevel"}, decoder=BYTE_LEVEL),
    "decoder that replaces": file(bpe(), decoder=seq("decoders", {"type": "Replace", "pattern": {"String": "a"}, "content": "<a>"}, FUSE)),
    "decoder that fuses": file(bpe(), decoder=FUSE),
    "decoder that strips more": file(bpe(), decoder=seq("decoders", FUSE, {"type": "Strip", "content": " ", "start": 2, "stop": 0})),
    "lower case": normalized(LOWER),
    "strip": normalized({"type": "Strip", "strip_left": True, "strip_right": True}),
    "strip left": normalized({"type": "Strip", "strip_left": True, "strip_right": False}),
    "accents": normalized(seq("normalizers", {"type": "NFD"}, {"type": "StripAccents"})),
    "bert": normalized({"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}),
    "bert, cased": normalized({"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False}),
    "nfkc": normalized({"type": "NFKC"}),
    "replace by signs": normalized({"type": "Replace", "pattern": {"String": "a"}, "content": "$&$1"}),
    "replace by expression": normalized({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "▁"}),
    "prepend": normalized({"type": "Prepend", "prepend": "▁"}),
    "nmt": normalized({"type": "Nmt"}),
    "precompiled": normalized({"type": "Precompiled", "precompiled_charsmap": charsmap({"é": "e", "e\u0301": "b", "A": "a", "ﬁ": "fi", "\u00a0": " ", "１": "1", "日": "日本", "ß": ""})}),
    "added, plain": file(unigram(), added_with()),
    "added, lstrip": file(unigram(), added_with(lstrip=True)),
    "added, rstrip": file(unigram(), added_with(rstrip=True)),
    "added, both strips": file(unigram(), added_with(lstrip=True, rstrip=True, special=True)),
    "added, single word": file(unigram(), added_with(single_word=True)),
    "added, normalized, lower case": file(unigram(), added_with(normalized=True), normalizer=LOWER),
    "added, not normalized, lower case": file(unigram(), added_with(normalized=False), normalizer=LOWER),
    "added, normalized and special": file(unigram(), added_with(normalized=True, special=True), normalizer=LOWER),
    "added, normalized, prepend": file(unigram(), added_with(normalized=True), normalizer={"type": "Prepend", "prepend": "▁"}),
    "added, normalized, single word": file(unigram(), added_with(normalized=True, single_word=True, rstrip=True), normalizer=LOWER),
    "added, one inside the other": file(unigram(), (UNK, BOS, token("<t>a", single_word=True), token("<t>"), token("<t", normalized=True))),
    "bert post-processor": file(unigram(), post_processor={"type": "BertProcessing", "sep": ["<s>", 1], "cls": ["<unk>", 0]}),
    "template": file(unigram(), post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<s>", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}),
}


def cases(tokenizer):
    made = []
    for text in TEXTS:
        try:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            whole = tokenizer.encode(text).ids
        except Exception as error:
            made.append({"text": text, "error": str(error)})
            continue
        case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
        made.append(case if whole == ids else {**case, "whole": whole})
    return made


def main():
    forms = [{"form": name, "tokenizer": form, "cases": cases(Tokenizer.from_str(json.dumps(form)))} for name, form in FORMS.items()]
    lines = ",\n".join(json.dumps(form, separators=(",", ":"), ensure_ascii=False) for form in forms)
    pathlib.Path("test/fixtures/tokenizer-forms.json").write_text(f"[\n{lines}\n]\n")
    print(len(forms), "forms,", len(TEXTS), "texts")


if __name__ == "__main__":
    main()
