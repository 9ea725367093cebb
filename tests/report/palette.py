"""Colours as people see them: WCAG contrast, and distances under colour blindness."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

CSS = Path(__file__).parents[2] / "src/buttress/report/assets/report.css"

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def tokens() -> dict[str, dict[str, str]]:
    """Return the colour variables of both themes."""
    css = CSS.read_text()
    blocks = re.findall(r":root(?::not\(\.paper\))? \{(.*?)\}", css, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks[:2])
    return {"light": light, "dark": {**light, **dark}}


def linear(colour: str) -> np.ndarray:
    """Return linear RGB of a hex colour."""
    value = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    """Return the WCAG contrast ratio."""
    light, dark = sorted((float(linear(one) @ _XYZ[1]) for one in (first, second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def distance(first: str, second: str, blindness: str) -> float:
    """Return the distance in CIELAB (1976) as a person with this colour vision sees it."""
    return float(np.linalg.norm(_lab(first, blindness) - _lab(second, blindness)))


def _lab(colour: str, blindness: str) -> np.ndarray:
    seen = np.clip(BLINDNESS[blindness] @ linear(colour), 0, 1)
    x, y, z = _XYZ @ seen / np.array([0.95047, 1.0, 1.08883])
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
