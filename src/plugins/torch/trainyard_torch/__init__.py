"""Gradients of Trainyard's training jobs by PyTorch: the child process behind `src/plugins/torch/`.

It knows a frozen base model and rows of tokens. Losses, clipping, AdamW, events and resume points are above it, in TypeScript: it is
asked for log-probabilities, told the loss's slope by each of them, and answers with the gradients of the adapter.
"""
