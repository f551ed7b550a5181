"""Draw docs/pictures/parts.svg: the parts of a deployment, and what goes between them.

python docs/pictures/parts.py > docs/pictures/parts.svg
"""

from typing import Final, NamedTuple

WIDTH: Final = 760
HEIGHT: Final = 300


class Box(NamedTuple):
    """A part: its corner, its size, its name and what it is for."""

    x: int
    y: int
    width: int
    height: int
    name: str
    about: str = ""

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


CLIENTS: Final = (
    Box(20, 20, 210, 56, "Publishers", "Python, or the original Java client"),
    Box(530, 20, 210, 56, "Subscribers", "Python, or the original Java client"),
)
HUBS: Final = tuple(Box(180 + 140 * number, 122, 120, 48, f"Hub {number + 1}") for number in range(3))
FRAME: Final = Box(162, 108, 436, 76, "Hubs")
STORES: Final = (
    Box(20, 222, 220, 60, "BookKeeper", "messages"),
    Box(270, 222, 220, 60, "HBase", "owners, ledger ranges, subscriptions"),
    Box(520, 222, 220, 60, "ZooKeeper", "which hubs are alive"),
)
STYLE: Final = """\
text { font: 14px sans-serif; text-anchor: middle; fill: #1f2328 }
.about { font-size: 11px; fill: #59636e }
rect { fill: #f6f8fa; stroke: #59636e; rx: 6px }
.hub { fill: #ddf4ff; stroke: #0969da }
.frame { fill: none; stroke-dasharray: 4 }
path { stroke: #59636e; fill: none; marker-end: url(#head) }
#head path { marker-end: none; fill: #59636e }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .about { fill: #9198a1 }
  rect { fill: #151b23; stroke: #9198a1 } .hub { fill: #121d2f; stroke: #4493f8 }
  .frame { fill: none }
  path { stroke: #9198a1 } #head path { fill: #9198a1 }
}"""


def draw() -> str:
    """Return the picture as SVG."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Publishers and subscribers talk to hubs; hubs keep messages in BookKeeper, metadata in HBase, '
        'and say in ZooKeeper that they are alive">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
    ]
    for box in (*CLIENTS, *STORES):
        lines += _box(box, "")
    lines.append(f'<rect class="frame" x="{FRAME.x}" y="{FRAME.y}" width="{FRAME.width}" height="{FRAME.height}"/>')
    for box in HUBS:
        lines += _box(box, ' class="hub"')
    publishers, subscribers = CLIENTS
    lines.append(_arrow(publishers.middle, publishers.y + publishers.height, HUBS[0].middle, FRAME.y, "publish"))
    lines.append(_arrow(HUBS[2].middle, FRAME.y, subscribers.middle, subscribers.y + subscribers.height, "deliver"))
    for store, x in zip(STORES, (FRAME.x + 60, FRAME.middle, FRAME.x + FRAME.width - 60), strict=True):
        lines.append(_arrow(x, FRAME.y + FRAME.height, store.middle, store.y))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _box(box: Box, attributes: str) -> list[str]:
    lines = [f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"{attributes}/>']
    height = box.y + box.height // 2
    lines.append(f'<text x="{box.middle}" y="{height - 3 if box.about else height + 5}">{box.name}</text>')
    if box.about:
        lines.append(f'<text class="about" x="{box.middle}" y="{height + 15}">{box.about}</text>')
    return lines


def _arrow(x: int, y: int, to_x: int, to_y: int, label: str = "") -> str:
    line = f'<path d="M{x} {y} L{to_x} {to_y}"/>'
    if label:
        side = -34 if to_x > x and to_y > y else 34
        line += f'<text class="about" x="{(x + to_x) // 2 + side}" y="{(y + to_y) // 2}">{label}</text>'
    return line


if __name__ == "__main__":
    print(draw(), end="")
