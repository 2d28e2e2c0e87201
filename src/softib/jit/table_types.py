"""The Numba type of :class:`softib.jit.table.Table`: a pointer to the addresses and shapes of its
arrays."""

import hashlib

import numba
from llvmlite import ir
from numba.core import types
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, models, register_model, unbox
from numba.np.arrayobj import make_array, populate_array

__all__ = ["TableType", "type_of"]


class TableType(types.Type):
    """``columns`` holds for each array: its name, its Numba type, the index of the 64-bit number at
    which its descriptor begins, and the length of its last dimension if that is fixed."""

    def __init__(self, name, columns):
        self.columns = columns
        self.offsets = {column: (array, at, width) for column, array, at, width in columns}
        digest = hashlib.sha256(
            repr([(c, str(a), getattr(a, "layout", ""), a.aligned, at, width) for c, a, at, width in columns]).encode()
        )
        super().__init__(f"{name}_{digest.hexdigest()[:16]}")

    @property
    def key(self):
        return self.name, self.columns

    def __hash__(self):
        return hash(self.name)  # the name contains a digest of all columns

    @property
    def mangling_args(self):
        return self.name, ()


register_model(TableType)(models.OpaqueModel)


def type_of(table):
    """Return the type of ``table``: its fields, with dtype, dimensions and layout of each."""
    columns, at = [], 0
    for name in table._fields:
        array = numba.typeof(table._columns[name])
        columns.append((name, array.dtype if name in table._single else array, at, table._widths.get(name)))
        at += 1 + array.ndim * (1 if array.layout == "C" else 2)
    return TableType(type(table).__name__, tuple(columns))


@infer_getattr
class TableColumns(AttributeTemplate):
    """Typing of ``t.name``: an array, or a row if the array has only one row."""

    key = TableType

    def generic_resolve(self, table, name):
        offset = table.offsets.get(name)
        return offset[0] if offset else None


@unbox(TableType)
def unbox_table(typ, obj, c):
    """Return the address of the descriptors."""
    address = c.pyapi.object_getattr_string(obj, "_address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=c.pyapi.c_api_error())


@lower_getattr_generic(TableType)
def column(context, builder, typ, value, name):
    """Make the array from its descriptor. Descriptors never change, so LLVM loads each once, even
    across stores."""
    array_type, at, width = typ.offsets[name]
    int64 = ir.IntType(64)
    descriptors = builder.bitcast(value, int64.as_pointer())

    def load(i):
        loaded = builder.load(builder.gep(descriptors, [ir.Constant(int64, at + i)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(array_type, types.Record):
        return builder.inttoptr(load(0), context.get_value_type(array_type))
    array = make_array(array_type)(context, builder)
    itemsize = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    shape = [load(1 + i) for i in range(array_type.ndim)]
    if width is not None:
        shape[-1] = ir.Constant(int64, width)
    if array_type.layout == "C":
        strides, stride = [], ir.Constant(int64, itemsize)
        for length in reversed(shape):
            strides.insert(0, stride)
            stride = builder.mul(stride, length, flags=["nsw"])
    else:
        strides = [load(1 + array_type.ndim + i) for i in range(array_type.ndim)]
    data = builder.inttoptr(load(0), array.data.type)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return impl_ret_borrowed(context, builder, array_type, array._getvalue())
