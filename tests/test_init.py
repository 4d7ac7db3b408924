"""The public interface: a name is added or removed here on purpose, never by accident."""

import importlib
import subprocess
import sys

import pytest

import crosshead

PUBLIC = {
    "crosshead": [
        "DecodeConfig", "Recipe", "Silent", "Task", "__version__", "attend", "bundle",
        "check_data", "compare", "data", "evaluate", "inspection", "load", "masks", "models",
        "pipelines", "record_attention", "register_architecture", "register_task", "scores",
        "tasks", "train",
    ],
    "crosshead.bundle": [
        "Bundle", "BundleConfig", "BundleScore", "CardFile", "TextBundle", "TextBundleConfig",
        "Words", "save_bundle", "verify_bundle",
    ],
    "crosshead.data": ["DataSection"],
    "crosshead.evaluation": [
        "ClassScores", "ComparedScore", "CorpusScore", "ForecastScore", "METRICS", "RESAMPLES",
        "SEED", "bits_per_character", "bleu", "caption_scores", "classification_scores", "compare",
        "corpus_scores", "evaluate", "exact_match", "forecast_scores", "masked_scores",
        "multi_bleu", "perplexity", "text_scores",
    ],
    "crosshead.inspection": [
        "AttentionWeights", "Difference", "ForbiddenEdge", "GivenWeights", "HeadMeasures",
        "HeadOff", "ImageAttention", "Patch", "Prefix", "Trace", "attention_rollout",
        "attention_weights", "draw_attention", "draw_heads", "draw_image_attention", "draw_mask",
        "draw_word_maps", "grounding", "image_attention", "measure_heads", "record_attention",
        "trace", "without_heads", "word_maps", "draw_model", "draw_positions",
    ],
    "crosshead.attention.masks": [
        "EvaluatedMask", "Mask", "allowed", "causal", "dilated", "documents", "fixed",
        "global_tokens", "padding_mask", "prefix", "same_block", "same_column", "strided",
        "summaries", "window",
    ],
    "crosshead.attention.scores": [
        "Additive", "Concat", "Cosine", "Dot", "General", "Location", "ProjectedAdditive",
        "RelativeOffset", "ScaledDot", "Score",
    ],
    "crosshead.models": [
        "AttentionParts", "Captioner", "CaptionerConfig", "Classifier", "ClassifierConfig",
        "ConvNet", "ConvNetConfig", "Convolutional", "ConvolutionalConfig", "EncoderConfig",
        "Ensemble", "Forecaster", "ForecasterConfig", "ForecasterShape", "ImageShape",
        "LanguageConfig", "LinearForecaster", "LinearForecasterConfig", "Model", "ModelConfig",
        "MultimodalConfig", "MultimodalTransformer", "PatchForecaster", "PatchForecasterConfig",
        "PositionKind", "Recurrent", "RecurrentConfig", "SequenceModel",
        "SeriesRecurrent", "SeriesRecurrentConfig", "SeriesTransformer", "SeriesTransformerConfig",
        "TokenModel", "TokenModelConfig", "Transformer", "TransformerConfig", "TransformerEncoder",
        "TransformerLanguageModel", "TransformerXL", "TransformerXLConfig", "VisionTransformer",
        "VisionTransformerConfig", "build_classifier", "build_forecaster", "build_image_text_model",
        "build_model", "register_positions", "register_score",
    ],
    "crosshead.pipelines": [
        "EnsembleTranslator", "Forecast", "ImageCaption", "ImageCaptioner", "ImageClassifier",
        "MaskFiller", "MultimodalTranslator", "Pipeline", "SeriesForecaster", "TextGenerator",
        "TranslatedText", "Translator",
    ],
    "crosshead.tasks": [
        "Corpus", "Epoch", "Findings", "LOSS", "Loss", "Metric", "Sample", "Stopped", "Task",
        "TaskBatch", "Validation", "Validator", "register_architecture", "register_task",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_interface_is_sealed(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name])
    for each in module.__all__:
        assert getattr(module, each) is not None


def test_public_names_are_listed_before_anything_imports_pytorch() -> None:
    code = (
        "import crosshead, sys; print(sorted(crosshead.__all__) == dir(crosshead), "
        "'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="'translate'"):
        _ = crosshead.translate
