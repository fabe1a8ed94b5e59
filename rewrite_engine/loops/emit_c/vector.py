"""Expressions over lanes: consecutive values of one iterator at once, in float32 lanes and masks.

Floats of 16 bits live in float32 lanes, rounded where the program rounds. What has no vector form is computed lane by
lane from its definition, so every expression of such a type can be part of a vector loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rewrite_engine.loops.dtypes import INDEX
from rewrite_engine.loops.emit_c.binding import Bindings, Numbers, unknown
from rewrite_engine.loops.emit_c.scalar import ELEMENT
from rewrite_engine.loops.emit_c.types import convert, lift
from rewrite_engine.loops.expr import Expr
from rewrite_engine.loops.index import bounds, subtract, terms

LANE_FLOATS = ("float32", "float16", "bfloat16")
"""Types whose elements are held as float32 lanes."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FUNCTIONS = {
    name: f"re_{name}_v" for name in ("exp", "tanh", "erf", "sqrt", "floor", "ceil", "round", "trunc", "abs", "sign")
}
_EACH = ("log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
_EACH_OF_TWO = {"pow": "powf", "fmod": "fmodf", "mod": "re_modf", "atan2": "atan2f"}
_COMPARE = {"lt": "<", "le": "<=", "eq": "=="}
_LOADED = ("int8", "uint8", "int16", "uint16", "int32")
"""Integer elements that become float32 lanes as they are loaded."""

_EXACT = (ELEMENT, "select", "min", "max", "neg", "abs")
"""Operations whose result needs no rounding."""

LARGEST_LANE_INDEX = 1 << 30


class Vectors(Bindings):
    """Bindings in which what depends on `lane` (an iterator, or the vector accumulators `wide`) is a vector.

    `count` is the C expression of the lanes that are used: "RE_W", or less in the last step of a loop.
    """

    def __init__(
        self,
        depth: Mapping[Expr, int],
        names: Mapping[Expr, str],
        buffers: dict[str, str],
        lane: Expr,
        count: str,
        numbers: Numbers,
        wide: Iterable[Expr] = (),
    ) -> None:
        super().__init__(depth, names, buffers, numbers)
        self.lane, self.count = lane, count
        self.wide = frozenset(wide)
        self.vectors: dict[Expr, str] = {node: names[node] for node in self.wide}
        self._varying: dict[Expr, bool] = {}

    def varies(self, node: Expr) -> bool:
        """Whether the node differs from lane to lane."""
        for inner in unknown((node,), self._varying):
            own = inner is self.lane or inner in self.wide
            self._varying[inner] = own or any(self._varying[arg] for arg in inner.args)
        return self._varying[node]

    def lanes(self, root: Expr) -> str:
        """The C vector of a float, or the mask of a condition; its lines go to the level of its depth."""
        for node in _vector_order(root, self):
            if node in self.vectors:
                continue
            text = self._vector(node)
            self._set_depth(node)
            if node in self.vectors:  # computed lane by lane
                continue
            name = self.numbers.fresh("w")
            kind = "re_i" if node.dtype == "bool" else "re_f"
            self.lines[self.depth[node]].append(f"const {kind} {name} = {text};")
            self.vectors[node] = name
        return self._operand(root)

    def uniform(self, node: Expr) -> str:
        """The C scalar of a node that is the same in all lanes."""
        (text,) = self.add(node)
        return text

    def _set_depth(self, node: Expr) -> None:
        for inner in unknown((node,), self.depth):
            self.depth[inner] = max((self.depth[arg] for arg in inner.args), default=0)

    def _operand(self, node: Expr) -> str:
        if node in self.vectors:
            return self.vectors[node]
        if self.varies(node):
            return self._by_lane(node)
        text = self.uniform(node)
        return f"re_splat_i(-({text}))" if node.dtype == "bool" else f"re_splat({lift(text, node.dtype)})"

    def _vector(self, node: Expr) -> str:
        text = self._native(node)
        if text is None:
            return self._by_lane(node)
        rounds = node.dtype in ("float16", "bfloat16") and node.op not in _EXACT
        return f"re_round_{node.dtype}_v({text})" if rounds else text

    def _native(self, node: Expr) -> str | None:
        """The node by vector operations, or None."""
        op, args = node.op, node.args
        if op == ELEMENT:
            return self._load(node, node.dtype)
        if op == "cast":
            return self._cast(node)
        if op in _COMPARE and args[0].dtype == INDEX:
            return self._index_mask(node)
        if op == "select" and node.dtype in LANE_FLOATS:
            then, otherwise = self._operand(args[1]), self._operand(args[2])
            if not self.varies(args[0]):
                return f"({self.uniform(args[0])} ? {then} : {otherwise})"
            return f"re_select({self._operand(args[0])}, {then}, {otherwise})"
        if any(arg.dtype not in (*LANE_FLOATS, "bool") for arg in args):
            return None
        if node.dtype == "bool":
            return self._mask(node)
        if node.dtype not in LANE_FLOATS or any(arg.dtype == "bool" for arg in args):
            return None
        if op in ("min", "max"):
            return self._extremum(op, args)
        texts = [self._operand(arg) for arg in args]
        if op in _INFIX:
            return f"({texts[0]} {_INFIX[op]} {texts[1]})"
        if op == "neg":
            return f"(-{texts[0]})"
        if op in _FUNCTIONS:
            return f"{_FUNCTIONS[op]}({texts[0]})"
        if op in _EACH:
            return f"RE_EACH({op}f, {texts[0]})"
        return f"RE_EACH_OF_TWO({_EACH_OF_TWO[op]}, {texts[0]}, {texts[1]})" if op in _EACH_OF_TWO else None

    def _extremum(self, op: str, args: tuple[Expr, ...]) -> str:
        first, second = args if args[0].op == "const" else args[::-1]
        plain = first.op == "const" and first.value == first.value
        left, right = self._operand(first), self._operand(second)
        return f"re_{op}_{'c' if plain else 'v'}({left}, {right})"

    def _mask(self, node: Expr) -> str | None:
        op = node.op
        if op in _COMPARE:
            if any(arg.dtype == "bool" for arg in node.args):
                return None
            left, right = (self._operand(arg) for arg in node.args)
            return f"RE_TRUE({left} {_COMPARE[op]} {right})"
        if op in ("and", "or") and all(arg.dtype == "bool" for arg in node.args):
            return f"({(' & ' if op == 'and' else ' | ').join(self._operand(arg) for arg in node.args)})"
        if op == "not" and node.args[0].dtype == "bool":
            return f"(~{self._operand(node.args[0])})"
        if op == "isnan":
            value = self._operand(node.args[0])
            return f"RE_TRUE({value} != {value})"
        return None

    def _cast(self, node: Expr) -> str | None:
        (source,) = node.args
        if node.dtype not in LANE_FLOATS:
            return None
        if source.op == ELEMENT and source.dtype in _LOADED and node.dtype == "float32":
            return self._load(source, source.dtype)
        if source.dtype in ("int32", "int64") and node.dtype == "float32":
            return self._exact(source)
        if source.dtype == "bool":
            return f"re_select({self._operand(source)}, re_splat(1.f), re_splat(0.f))"
        if source.dtype in LANE_FLOATS:
            return self._operand(source)
        return None

    def _exact(self, node: Expr) -> str | None:
        """Sums and differences of two elements of 8 or 16 bits, which float32 holds as they are."""
        parts = node.args if node.op in ("add", "sub") else (node,)
        texts = []
        for part in parts:
            element = part.args[0] if part.op == "cast" else part
            if element.op != ELEMENT or element.dtype not in ("int8", "uint8", "int16", "uint16"):
                return None
            loaded = self._load(element, element.dtype) if self.varies(element) else None
            if loaded is None and self.varies(element):
                return None
            texts.append(loaded or f"re_splat((float)({self.uniform(element)}))")
        return f"({(' + ' if node.op == 'add' else ' - ').join(texts)})"

    def _load(self, node: Expr, dtype: str) -> str | None:
        if dtype not in (*LANE_FLOATS, *_LOADED, "bool"):
            return None
        step = self._step(node.args[0])
        if step is None or step < 0 or step >= LARGEST_LANE_INDEX // 16:
            return None
        pointer = f"{self.buffer(str(node.value))} + {self.uniform_at(node.args[0])}"
        full = self.count == "RE_W"
        if dtype == "float32":
            if step == 1:
                return f"re_load({pointer})" if full else f"re_load_n({pointer}, {self.count})"
            return f"re_load_two({pointer})" if step == 2 and full else f"re_load_step({pointer}, {step}, {self.count})"
        return f"re_load_{dtype}({pointer}, {self.count})" if step == 1 else None

    def _step(self, index: Expr) -> int | None:
        """The coefficient of the lane in an index that is linear in it, else None."""
        _, coefficients = terms(index)
        if any(atom is not self.lane and self.varies(atom) for atom in coefficients):
            return None
        return coefficients.get(self.lane, 0)

    def uniform_at(self, index: Expr) -> str:
        """The C index of the first lane: the loop's variable holds it."""
        self._set_depth(index)
        return self.add(index)[0]

    def _index_mask(self, node: Expr) -> str | None:
        """A condition on indices that are linear in the lane: 0 < or <= or == the first lane's difference + step*l."""
        difference = subtract(node.args[1], node.args[0])
        step, (low, high) = self._step(difference), bounds(difference)
        if step is None or low < -LARGEST_LANE_INDEX or high > LARGEST_LANE_INDEX:
            return None
        first = self.uniform_at(difference)
        lanes = f"re_iota() * {step} + (int32_t)({first})"
        return f"RE_TRUE(0 {_COMPARE[node.op]} {lanes})" if node.op != "eq" else f"RE_TRUE(({lanes}) == 0)"

    def _by_lane(self, node: Expr) -> str:
        """The node lane by lane, from its definition; what is the same in all lanes is computed once, outside."""
        name = self.numbers.fresh("w")
        is_mask = node.dtype == "bool"
        result = "-(int32_t)({0})" if is_mask else lift("{0}", node.dtype)
        lines = self._each_lane(node, f"RE_LANE({name}, l) = {result};")
        self.lines[self.depth[node]] += [f"{'re_i' if is_mask else 're_f'} {name} = {{0}};", *lines]
        self.vectors[node] = name
        return name

    def _each_lane(self, node: Expr, statement: str) -> list[str]:
        """A loop over the lanes that are used: the statement with the node's scalar in it."""
        self._set_depth(node)
        position = f"{self.names.get(self.lane, 'lane')}_l"
        names = {self.lane: position}
        stack, seen = [node], set[Expr]()
        while stack:
            inner = stack.pop()
            if inner in seen or inner is self.lane or inner.op == "const":
                continue
            seen.add(inner)
            if inner in self.wide:
                names[inner] = f"RE_LANE({self.vectors[inner]}, l)"
            elif not self.varies(inner):
                names[inner] = self.uniform(inner)
            else:
                stack.extend(inner.args)
        inside = Bindings(dict.fromkeys(names, 0), names, self.buffers, self.numbers)
        (value,) = inside.add(node)
        moves = self.lane in self.names
        head = [f"const int64_t {position} = {self.names[self.lane]} + l;", f"(void){position};"] if moves else []
        loop = f"for (int64_t l = 0; l < {self.count}; l++) {{"
        return [loop, *head, *inside.lines[0], statement.replace("{0}", value), "}"]

    def store(self, buffer: str, address: Expr, value: Expr, by_lane: bool = False) -> bool:
        """Stores the lanes of `value` from `address` on, at the depth of the lane.

        False when it is not contiguous, or has no vector form; with `by_lane` such values are stored one by one (and
        float32 with any step).
        """
        step, dtype = self._step(address), value.dtype
        if step != 1 and (not by_lane or step is None or dtype != "float32"):
            return False
        level = self.lines[self.depth[self.lane]]
        source, casts = value, list[Expr]()
        while source.op == "cast" and source.dtype not in (*LANE_FLOATS, "bool"):
            casts.append(source)
            source = source.args[0]
        if source.dtype not in (*LANE_FLOATS, "bool"):
            if by_lane:
                pointer = f"{self.buffer(buffer)} + {self.uniform_at(address)}"
                level += self._each_lane(value, f"({pointer})[l] = {{0}};")
            return by_lane
        text = self.lanes(source)
        pointer = f"{self.buffer(buffer)} + {self.uniform_at(address)}"
        if dtype == "float32" and step != 1:
            level.append(f"re_store_step({pointer}, {text}, {step}, {self.count});")
        elif dtype == "float32" and self.count == "RE_W":
            level.append(f"re_store({pointer}, {text});")
        elif dtype == "float32":
            level.append(f"re_store_n({pointer}, {text}, {self.count});")
        elif dtype in ("float16", "bfloat16") or (
            dtype in ("int8", "uint8") and source.dtype != "bool" and all(c.dtype in (dtype, "int32") for c in casts)
        ):
            level.append(f"re_store_{dtype}({pointer}, {text}, {self.count});")
        else:
            is_mask = source.dtype == "bool"
            element, plain = ("(RE_LANE(lanes, l) != 0)", "bool") if is_mask else ("RE_LANE(lanes, l)", "float32")
            for node in reversed(casts):
                element, plain = convert(element, plain, node.dtype, bool(node.value)), node.dtype
            each = f"for (int64_t l = 0; l < {self.count}; l++) ({pointer})[l] = {element};"
            level.append(f"{{ const {'re_i' if is_mask else 're_f'} lanes = {text}; {each} }}")
        return True


def _vector_order(root: Expr, vectors: Vectors) -> list[Expr]:
    """The nodes below `root` that get a vector of their own, operands first; what is computed by lane ends the walk."""
    order: list[Expr] = []
    done: set[Expr] = set()
    stack = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if node in done or node in vectors.vectors or not vectors.varies(node):
            continue
        if node.dtype not in (*LANE_FLOATS, "bool"):
            continue
        if expanded:
            done.add(node)
            order.append(node)
            continue
        stack.append((node, True))
        if node.op != ELEMENT:
            stack.extend((arg, False) for arg in reversed(node.args))
    return order
