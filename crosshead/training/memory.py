"""What a run takes of memory, and a way to take less."""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import drawing_twice
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.training.hardware import Machine

LIBRARIES = 500_000_000
"""Bytes that Python, PyTorch and their like hold before there is a model."""

KERNELS = 200_000_000
"""Bytes that oneDNN holds on a CPU for products in bfloat16, whose kernels and packed operands
differ by shape: what was measured beyond the rest at `tiny`, its caches held to 64 shapes."""


def recompute_activations(model: Transformer) -> None:
    """Keep of each layer its inputs alone, and compute the rest again on the way back.

    Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost") of
    all layers of the stacks, by PyTorch's own function: gradients are the same, since dropout draws
    the same again, and an update takes about a third longer.
    """
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, context_fn=drawing_twice
        )


def memory_estimate(
    model: TransformerConfig, tokens: int, parameters: int, machine: Machine, *, recompute: bool
) -> int:
    """Bytes that a run takes: the libraries, the weights with all that hangs on them, a batch.

    `tokens` are those of the part of a batch that is computed at once.

    For its backward pass an encoder layer keeps about 21 vectors of d_model and 2 of d_ff a
    position and 3 weights a head and key; a decoder layer 37, 2 and 6 (for sentences of 32
    tokens). That is counted from the code, and was held against the peak of resident memory of
    `tiny` in float32 on one thread of a CPU, with a vocabulary of 120: 0.58 GB for batches of 1,024
    tokens (estimated: 0.69), 0.90 to 1.09 GB for 4,096 in sentences of 32 to 120 (1.16).
    """
    size = machine.dtype.itemsize
    masters = 0 if size == 4 else 4
    weights = parameters * (2 * size + masters + 4 + 8 + 4)  # gradients twice, moments, validation
    pairs = model.heads * 32
    encoder_layer = 21 * model.d_model + 2 * model.d_ff + 3 * pairs
    decoder_layer = 37 * model.d_model + 2 * model.d_ff + 6 * pairs
    if recompute:  # all inputs, and one layer at a time; the memory's keys and values are inputs
        position = model.encoder_layers * model.d_model + 3 * model.decoder_layers * model.d_model
        position += decoder_layer
    else:
        position = model.encoder_layers * encoder_layer + model.decoder_layers * decoder_layer
    has_kernels = machine.device.type == "cpu" and machine.dtype == torch.bfloat16
    return LIBRARIES + KERNELS * has_kernels + weights + tokens * position * size
