"""Schedules: how the programs of a kernel walk its rows and columns.

To add one, write a subclass of ``base.Schedule`` in a file of its own and put it into the table. Pure.
"""

from __future__ import annotations

from workers.authors.compiler.schedules.ascend import AscendFlat, AscendProduct, AscendRefused, AscendTile
from workers.authors.compiler.schedules.base import Schedule
from workers.authors.compiler.schedules.chained import ChainedSchedule
from workers.authors.compiler.schedules.cutedsl import CuteFlat, CuteRefused, CuteTile
from workers.authors.compiler.schedules.cutile import CutileFlat, CutileRefused, CutileTile
from workers.authors.compiler.schedules.cutile_product import CutileProduct
from workers.authors.compiler.schedules.flat import Flat
from workers.authors.compiler.schedules.product import ProductSchedule
from workers.authors.compiler.schedules.segmented import Segmented
from workers.authors.compiler.schedules.tile import Tile
from workers.authors.compiler.schedules.windowed import Windowed

# By target; the first that fits a task takes it. ``Tile`` hands rows that registers do not hold on to ``looped.Looped``.
SCHEDULES: dict[str, tuple[type[Schedule], ...]] = {
    "gpu": (ProductSchedule, ChainedSchedule, Windowed, Segmented, Flat, Tile),
    "ascend": (AscendRefused, AscendProduct, AscendFlat, AscendTile),
    "cutile": (CutileProduct, CutileRefused, CutileFlat, CutileTile),
    "cutedsl": (CuteRefused, CuteFlat, CuteTile),
}
