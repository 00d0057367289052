"""Writes test/fixtures/graders/similarity.json: what the named packages say of pairs of texts.

pip install rapidfuzz==3.10.1 nltk==3.10.0 rouge-score==0.1.2
python test/goldens/make_similarity_goldens.py
"""

import json
import pathlib

from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.gleu_score import sentence_gleu
from nltk.translate.meteor_score import meteor_score
from rapidfuzz import fuzz, utils
from rouge_score import rouge_scorer


class NoSynonyms:
    """In place of WordNet's data, which is not ours to ship."""

    def synsets(self, _word):
        return []


ROUGE = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_3": "rouge3", "rouge_4": "rouge4", "rouge_5": "rouge5", "rouge_l": "rougeL"}


def rouge(kind):
    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=False)
    return lambda text, reference: scorer.score(reference, text)[kind].fmeasure


METRICS = {
    "fuzzy_match": lambda text, reference: fuzz.WRatio(text, reference, processor=utils.default_process) / 100,
    "bleu": lambda text, reference: sentence_bleu(
        [reference.split()], text.split(), smoothing_function=SmoothingFunction().method1
    ),
    "gleu": lambda text, reference: sentence_gleu([reference.split()], text.split()),
    "meteor": lambda text, reference: meteor_score([reference.split()], text.split(), wordnet=NoSynonyms()),
    **{name: rouge(kind) for name, kind in ROUGE.items()},
}

PAIRS = [
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("the cat sat on the mat", "on the mat sat a cat"),
    ("The cat is sitting on the mat.", "the cats sat on a mat"),
    ("fuzzy fuzzy was a bear", "wuzzy was a bear"),
    ("Paris", "The capital of France is Paris, which lies at the Seine."),
    ("the answer is 42, I am sure, because I counted all of them twice", "answer 42"),
    ("", "something"),
    ("something", ""),
    ("?!", "..."),
    ("naïve café 中文", "naive cafe 中文"),
    ("generalization of relational activities", "general relations activate"),
    ("he was hoping and hopping, died and tied", "he hopes and hops, dies and ties"),
    ("yellow", "yelow"),
    ("a b c d e f g", "g f e d c b a"),
    ("foo_bar baz\nqux", "foo bar baz qux"),
    ("x" * 70 + " end", "y" + "x" * 68 + " the end"),
    (" ".join(f"w{i}" for i in range(40)), " ".join(f"w{i}" for i in range(39, -1, -2))),
    ("one two three", "one two three four five six seven eight nine ten"),
    ("İstanbul ŞEHRİ 😀 ok", "istanbul şehri 😀 OK"),
    ("to be or not to be", "to be, or not: to be that is"),
    ("geology and archaeology", "geological archaeologist"),
    ("q", "p"),
]

if __name__ == "__main__":
    rows = [
        {"input": text, "reference": reference, "scores": {name: metric(text, reference) for name, metric in METRICS.items()}}
        for text, reference in PAIRS
    ]
    path = pathlib.Path(__file__).parent.parent / "fixtures" / "graders" / "similarity.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
