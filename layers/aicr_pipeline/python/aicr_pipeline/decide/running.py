"""What a pipeline says of itself: what is deployed, and what it is configured with."""

from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.qualification import Running, RunningAicr


def running_of(config: ClusterConfig, deployed: BoundPipeline) -> Running:
    """What a pipeline says of itself."""
    aicr = config.aicr
    return Running(
        cluster=config.cluster.name,
        development=config.development,
        aicr=RunningAicr(image=aicr.image, version=aicr.version, validator_images=aicr.validator_images),
        pipeline=deployed,
    )
