"""The Spark that the tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import sparks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return sparks.shared()
