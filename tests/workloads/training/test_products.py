"""Times of products by size. Oracle: products measured on one H200, which the model's two shares (of an A100) were not chosen by."""

from __future__ import annotations

import statistics

from bench.validation import gpu_products

from tests.docs.scripts import ROOT


def test_products_of_another_gpu():
    rows = [row for row in gpu_products.rows() if row.what == "product" and row.us >= 100]
    assert len(rows) > 150 and {row.gpu for row in rows} == {"NVIDIA H200"}
    errors = gpu_products.errors_of(rows)
    assert statistics.mean(map(abs, errors)) < 0.12 and abs(statistics.mean(errors)) < 0.05


def test_the_page_has_these_rows():
    """What misses more stands there too: small products, attention, what memory bounds."""
    assert (ROOT / "docs/evidence/gpu-products.md").read_text("utf-8") == gpu_products.page(gpu_products.rows())
