"""Makes test/fixtures/tokenizers/*.json: small tokenizers of many kinds and what the reference library does with them.

Needs the PyPI package tokenizers (0.23.3 was used). Run from the repository root: python3 test/support/model/make-tokenizer-goldens.py
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
CJK = r"[一-龥぀-ゟ゠-ヿ]+"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

CORPUS = [
    "The station clock shows a quarter past nine and the train isn't here yet; they'll wait.",
    "def add(a, b):\n    return a + b\n\n\nprint(add(1, 23456))\t# prints 23457",
    "Der Zug fährt über die Brücke, größer als früher. Où est la gare? ¿Dónde está?",
    "今日は天気がいいですね。火车站在哪里？ 기차역이 어디에 있나요?",
    "Поезд прибывает в 12:30 на платформу № 7. مرحبا بالعالم ١٢٣ नमस्ते दुनिया",
    "WE'LL see HTTPServer and camelCase words, 1,000,000 times!!! :-) 😀👩‍👩‍👧 é é",
] * 4

FRAGMENTS = [
    " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u0085", "\ufeff", "\u3000", "\u200d", "the", " the", "The", "train", "isn't",
    "'LL", "’s", "a", "b", "ab", "123", "4567", " 89", "½", "١٢٣", "²", "café", "cafe\u0301", "ÄÖ", "ß", "日本", "。", "火车", "한국", "привет",
    "नमस्ते", "😀", "👩‍👩‍👧", "\U0001f1e9\U0001f1ea", "!", "?!", "...", "_", "__init__", "$", "+", "=", "<", ">", "|", "<|", "<|im_end|>", "<|im_start|>",
    "<think>", "</think>", "<|endoftext|>", "MASK", "[pad]", "▁", "<0x0A>", "é", "K", "ﬁ", "\0", "ﾊ", "Ⅷ", "x" * 60, " " * 45,
]


def texts():
    rng = random.Random(20261121)
    made = [rng.choices(FRAGMENTS, k=rng.randint(1, 12)) for _ in range(140)]
    return ["", *FRAGMENTS, *CORPUS[:6], *("".join(parts) for parts in made)]


def trainer(**options):
    return trainers.BpeTrainer(vocab_size=440, special_tokens=[], show_progress=False, **options)


def byte_level(pre, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return with_added(tokenizer)


def with_added(tokenizer):
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


RAW = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def with_bos(tokenizer):
    bos = ("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[bos])
    return tokenizer


def ignoring_merges(tokenizer):
    """A token that no merge makes, found only as a whole word."""
    data = json.loads(tokenizer.to_str())
    data["model"]["ignore_merges"] = True
    data["model"]["vocab"]["Ġtrain"] = len(data["model"]["vocab"]) + len(data["added_tokens"])
    data["model"]["merges"] = [merge for merge in data["model"]["merges"] if "".join(merge) != "Ġtrain"]
    return Tokenizer.from_str(json.dumps(data))


def character_level(normalizer, pre, decoder):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoder
    first = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    options = trainers.BpeTrainer(vocab_size=640, special_tokens=first, show_progress=False, limit_alphabet=90)
    tokenizer.train_from_iterator([line.replace("\n", " ") for line in CORPUS], options)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] == "<unk>"]
    return with_added(Tokenizer.from_str(json.dumps(data)))


def sentence_piece_decoder(strips=True):
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strips else []))


def quirks():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.add_tokens([
        AddedToken("MASK", lstrip=True, normalized=False),
        AddedToken("[pad]", rstrip=True, normalized=False),
        AddedToken("train", single_word=True, normalized=False),
    ])
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    options = trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, options)
    return with_added(tokenizer)


SPACES = normalizers.Replace(" ", "▁")
TOKENIZERS = {
    "qwen": lambda: byte_level(pre_tokenizers.Sequence([split(QWEN), RAW]), normalizers.NFC()),
    "llama3": lambda: ignoring_merges(with_bos(byte_level(pre_tokenizers.Sequence([split(LLAMA), RAW])))),
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "smollm": lambda: byte_level(
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ),
    "deepseek": lambda: byte_level(pre_tokenizers.Sequence([split(r"\p{N}{1,3}"), split(CJK), split(LLAMA), RAW])),
    "quirks": quirks,
    "llama2": lambda: with_bos(
        character_level(normalizers.Sequence([normalizers.Prepend("▁"), SPACES]), None, sentence_piece_decoder())
    ),
    "mistral": lambda: with_bos(
        character_level(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), sentence_piece_decoder())
    ),
    "gemma": lambda: character_level(SPACES, pre_tokenizers.Split(" ", "merged_with_previous"), sentence_piece_decoder(False)),
    "punctuation": lambda: byte_level(
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ),
    "unigram": unigram,
}


def expectations(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return {
        "text": text,
        "ids": ids,
        "withSpecial": tokenizer.encode(text).ids,
        "decoded": tokenizer.decode(ids, skip_special_tokens=False),
        "skipped": tokenizer.decode(ids, skip_special_tokens=True),
    }


def main():
    folder = pathlib.Path("test/fixtures/tokenizers")
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in TOKENIZERS.items():
        tokenizer = make()
        rows = [expectations(tokenizer, text) for text in texts()]
        if not name == "qwen":
            rows = rows[::2]
        content = {"tokenizer": json.loads(tokenizer.to_str()), "cases": rows}
        (folder / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
        print(name, tokenizer.get_vocab_size(), len(rows))


main()
