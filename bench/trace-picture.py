#!/usr/bin/env python3
"""Draws a few layers of one step of a trace (prestage ... --trace FILE) as SVG: a row a lane, time to the right.

    bench/trace-picture.py TRACE.json OUT.svg [--step N] [--layer 8] [--layers 1]
"""
import argparse
import json
from html import escape

COLOURS = {"compute": "#4c78a8", "wait": "#d9d9d9", "comm": "#e45756", "prefetch": "#54a24b"}
LEFT, ROW, WIDTH = 110, 46, 1100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--step", type=int, default=10)
    parser.add_argument("--layer", type=int, default=8)
    parser.add_argument("--layers", type=int, default=1)
    a = parser.parse_args()
    events = json.load(open(a.trace))["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    spans = sorted((e for e in events if e.get("ph") == "X"), key=lambda e: e["ts"])
    starts = [e["ts"] for e in spans if e["name"] == "embed"] + [float("inf")]
    step = [e for e in spans if starts[a.step] <= e["ts"] < starts[a.step + 1]]
    wanted = [e for e in step if a.layer <= e["args"].get("layer", 0) < a.layer + a.layers and e["cat"] == "compute"]
    begin, end = wanted[0]["ts"], wanted[-1]["ts"] + wanted[-1]["dur"]
    # up to the end of the last wait
    end = max([end] + [e["ts"] + e["dur"] for e in step if e["cat"] == "comm" and e["ts"] < end])
    scale = (WIDTH - LEFT - 10) / (end - begin)
    rows = sorted(lanes, key=lambda key: key)
    height = ROW * len(rows) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
           'font-size="11">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for i, key in enumerate(rows):
        out.append(f'<text x="6" y="{i * ROW + 28}">{escape(lanes[key])}</text>')
    for e in step:
        if e["ts"] + e["dur"] < begin or e["ts"] > end:
            continue
        x = LEFT + max(e["ts"] - begin, 0) * scale
        w = max((min(e["ts"] + e["dur"], end) - max(e["ts"], begin)) * scale, 0.5)
        y = rows.index((e["pid"], e["tid"])) * ROW + 8
        out.append(f'<g><title>{escape(e["name"])}, {e["dur"]:.1f} us</title><rect x="{x:.1f}" y="{y}" width="{w:.1f}" '
                   f'height="{ROW - 16}" fill="{COLOURS.get(e["cat"], "#999")}" stroke="white" stroke-width="0.4"/>')
        label = e["name"].split(" ", 1)[-1]
        if w > 7 * len(label):
            out.append(f'<text x="{x + 3:.1f}" y="{y + 19}" fill="{"black" if e["cat"] == "wait" else "white"}">'
                       f'{escape(label)}</text>')
        out.append("</g>")
    base = ROW * len(rows) + 20
    tick = 20 if end - begin < 400 else 100
    for t in range(0, int(end - begin) + 1, tick):
        x = LEFT + t * scale
        out.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{base - 12}" stroke="#eee"/>'
                   f'<text x="{x:.1f}" y="{base}" text-anchor="middle" fill="#555">{t} us</text>')
    for i, (name, colour) in enumerate(COLOURS.items()):
        out.append(f'<rect x="{LEFT + i * 110}" y="{base + 8}" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{LEFT + i * 110 + 18}" y="{base + 18}">{name}</text>')
    out.append("</svg>")
    with open(a.out, "w") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
