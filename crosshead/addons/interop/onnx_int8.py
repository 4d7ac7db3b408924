"""ONNX graphs with weights in eight bits, by the dynamic quantisation of ONNX Runtime.

Matrices have a scale for each output, embeddings one scale. Activations become eight bits at run
time, with one scale for a batch.
"""

from pathlib import Path
from tempfile import TemporaryDirectory


def quantised(graph: bytes) -> bytes:
    """Return a graph with its weights in eight bits.

    The weights have no sign. With signed ones, the products of a processor with AVX2 and without
    VNNI instructions overflow.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    model = onnx.load_from_string(graph)
    # The written graph has nothing to simplify first. Without the mark, the library warns.
    add_pre_process_metadata(model)
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        quantize_dynamic(model, path, per_channel=True, weight_type=QuantType.QUInt8)
        return path.read_bytes()
