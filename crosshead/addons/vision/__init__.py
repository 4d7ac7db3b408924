"""Vision: classes of images, captions, and sentences beside images."""


def register() -> None:
    """Register the tasks on images and their architectures."""
    from crosshead.addons.vision import attention_maps  # noqa: F401 - registers a picture
    from crosshead.addons.vision.classification import PRESETS, ClassificationTask
    from crosshead.addons.vision.image_text import PRESETS as TEXT_PRESETS
    from crosshead.addons.vision.image_text import CaptioningTask, MultimodalTask
    from crosshead.addons.vision.models.captioner import Captioner, CaptionerConfig
    from crosshead.addons.vision.models.classifier import ConvNet, ConvNetConfig
    from crosshead.addons.vision.models.multimodal import MultimodalConfig, MultimodalTransformer
    from crosshead.addons.vision.models.vision_transformer import (
        VisionTransformer,
        VisionTransformerConfig,
    )
    from crosshead.tasks.registry import register_architecture, register_task

    register_task(ClassificationTask(), {})
    register_task(CaptioningTask(), {})
    register_task(MultimodalTask(), {})
    register_architecture(VisionTransformerConfig, VisionTransformer, PRESETS["vit"])
    register_architecture(ConvNetConfig, ConvNet, PRESETS["convnet"])
    register_architecture(CaptionerConfig, Captioner, TEXT_PRESETS["captioner"])
    register_architecture(MultimodalConfig, MultimodalTransformer, TEXT_PRESETS["multimodal"])
