"""A stand-in for NVIDIA's ``aicr`` command, for the local engine.

The stand-in kubelet runs ``python -m local.aicr`` where a Job's container says ``aicr``. It takes
the flags the pipeline's Jobs use, spelled as the real command documents them, writes the same
kinds of documents to the same places, and ends with the same exit codes. What it renders is a
sample stack written for this project: real chart names and versions, short values of our own.

``AICR_SAMPLE_BUNDLE`` names a folder rendered by the real command; then ``recipe`` and ``bundle``
hand out that folder's content instead of the sample. ``AICR_SAMPLE_UPGRADES`` names an ``upgrades.yaml``
that goes into the sample's bundle. ``docs/bundle-format.md`` describes the formats.
"""

import os

AICR_VERSION = os.environ.get("AICR_STANDIN_VERSION", "v1.1.2")
"""What the stand-in reports as its release: constant for one pin, so that renders can be compared."""
