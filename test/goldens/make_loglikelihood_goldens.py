#!/usr/bin/env python3
"""Makes test/goldens/loglikelihoods.json: how likely transformers finds continuations of contexts, on the built-in spark model.

The requests are those of an evaluation harness: a context, a continuation, their tokens joined; the answer is the sum of the
continuation's log-probabilities, and whether every token of it is the likeliest. Weights in float32.

Run: python3 test/goldens/make_loglikelihood_goldens.py   (needs torch and transformers)
"""
import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parent.parent / "src" / "assets" / "spark"

QUESTIONS = [
    ("Question: What is the capital of France?\nAnswer:", [" Paris", " London", " Berlin"]),
    ("Question: Is ice cold?\nAnswer:", [" yes", " no"]),
    ("Once upon a time", [" there was a king.", " purple seven the of"]),
    ("The sum of two and two is", [" four", " five", " na\u00efve \U0001f600"]),
    ("<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant", ["\nyes", "\nYes.", "\nno"]),
    ("a", ["a", " b"]),
]


def main():
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.float32).eval()
    cases = []
    for context, choices in QUESTIONS:
        for continuation in choices:
            ids = tokenizer(context + continuation, add_special_tokens=False).input_ids
            start = len(tokenizer(context, add_special_tokens=False).input_ids)
            with torch.no_grad():
                logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            at = [logprobs[i - 1, ids[i]].item() for i in range(1, len(ids))]
            greedy = all(logprobs[i - 1].argmax().item() == ids[i] for i in range(start, len(ids)))
            top = [[[int(t), round(v, 5)] for v, t in zip(*(x.tolist() for x in logprobs[i - 1].topk(3)))] for i in range(1, len(ids))]
            cases.append({
                "context": context,
                "continuation": continuation,
                "token_ids": ids,
                "context_tokens": start,
                "token_logprobs": [None] + [round(x, 5) for x in at],
                "top": [None] + top,
                "loglikelihood": round(sum(at[start - 1:]), 5),
                "is_greedy": greedy,
            })
    (HERE / "loglikelihoods.json").write_text(json.dumps({"cases": cases}, indent=1, ensure_ascii=False) + "\n")


main()
