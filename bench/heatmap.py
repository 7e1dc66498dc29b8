"""Heatmaps as SVG: one small table a policy, of ratios; for the scripts of this folder."""
from pathlib import Path

CELL_W, CELL_H, LEFT, TOP, GAP, TITLE_W = 64, 26, 130, 64, 28, 120


def colour(ratio):
    """White at 1, green above, red below."""
    heat = max(-1.0, min(1.0, (ratio - 1) / 0.4))
    fade = int(255 - 150 * abs(heat))
    return f"rgb({fade},255,{fade})" if heat > 0 else f"rgb(255,{fade},{fade})"


def text(x, y, words, anchor="middle", size=12):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def panel(out, left, title, rows, columns, ratio_of):
    out.append(text(left, 20, title, "start", 14))
    for i, column in enumerate(columns):
        out.append(text(left + (i + 0.5) * CELL_W, TOP - 8, column))
    for j, row in enumerate(rows):
        for i, column in enumerate(columns):
            ratio = ratio_of(row, column)
            if ratio is None:
                continue
            x, y = left + i * CELL_W, TOP + j * CELL_H
            out.append(f'<rect x="{x}" y="{y}" width="{CELL_W - 2}" height="{CELL_H - 2}" fill="{colour(ratio)}"/>')
            out.append(text(x + CELL_W / 2, y + 17, f"{ratio:.2f}"))


def draw(path, cells, policies, down, across):
    """cells: dictionaries with the ratio of each policy. down, across: (key of a cell, its name for people)."""
    rows = list(dict.fromkeys(cell[down[0]] for cell in cells))
    columns = list(dict.fromkeys(cell[across[0]] for cell in cells))
    places = {(cell[down[0]], cell[across[0]]): cell for cell in cells}
    width = max(CELL_W * len(columns), TITLE_W) + GAP
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + width * len(policies)}" '
           f'height="{TOP + CELL_H * len(rows) + 16}" font-family="sans-serif">',
           '<rect width="100%" height="100%" fill="white"/>', text(8, 40, f"{across[1]} across", "start"),
           text(8, 56, f"{down[1]} down", "start")]
    for j, row in enumerate(rows):
        out.append(text(LEFT - 10, TOP + j * CELL_H + 17, row, "end"))
    for n, policy in enumerate(policies):
        panel(out, LEFT + n * width, f"{policy} / off", rows, columns,
              lambda row, column, p=policy: places.get((row, column), {}).get(p))
    out.append("</svg>")
    Path(path).write_text("\n".join(out) + "\n")
