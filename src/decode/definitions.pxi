# Takes plans and definitions from Python. Included by decode/_rows.pyx.

from libc.stdint cimport uint16_t
from libc.stdlib cimport calloc, malloc

from batch.records cimport span_t
from decode.condition_given cimport condition_of
from decode.plan cimport wire_op_t
from decode.plan_checks cimport check_ops
from decode.table_cache cimport add_definition, add_shape, content_t, find_shape, set_table_id, table_cache_t
from memory.items cimport room_for_one

cdef class Definitions(Place):
    """The plans of a loop, and the definitions of tables that are decoded by them."""

    cdef Wishes wishes
    cdef uint64_t followed          # the version of the wishes that the plans are made for
    cdef list plans                 # of each plan: the Plan of its definitions
    cdef list layouts               # of each plan: what its `columnar` refers to
    cdef list shapes                # of each shape: a Definition, None if its rows are not wanted
    cdef list definitions           # of each definition that a batch was made for: the Definition

    def add_plan(self, bytes ops not None, *, uint32_t image_len, uint32_t record_len, json_columns=(),
                 bint wanted=True, bint raw=False, bytes nullable=None, bint compressed=False, scan=None,
                 tuple condition=None):
        """Add a plan, for definitions that are added later.

        Parameters
        ----------
        ops : bytes
            One wire_op_t per column.
        image_len, record_len : int
            Bytes of the image part of a record, and of the whole record.
        json_columns : sequence of int
            Indexes of the table's JSON columns.
        wanted, raw : bool
            Whether rows are decoded at all; whether they are given as spans of undecoded bytes.
        nullable : bytes or None
            For rows of version 0: not zero for each column that can be NULL; None: all can.
        compressed : bool
            Some values are compressed: `take_group` lists the batches.
        scan : int or None
            Index of the plan by which the columns of `condition` alone are decoded.
        condition : (bytes, bytes, bytes) or None
            Which rows are wanted: tests, program and pool (decode/condition_words.pxd).

        Returns
        -------
        int
            Index of the plan.
        """
        cdef uint32_t n = <uint32_t> (len(ops) // sizeof(wire_op_t))
        cdef plan_t* plan
        cdef plan_t** plans
        cdef uint32_t i
        if <size_t> len(ops) != n * sizeof(wire_op_t) or (nullable is not None and len(nullable) != n):
            raise ValueError(f"{len(ops)} bytes of operations")
        plans = <plan_t**> room_for_one(
            self.loop.plans, self.loop.plan_count, &self.loop.plan_capacity, 32, sizeof(plan_t*))
        if plans == NULL:
            raise MemoryError
        self.loop.plans = plans
        if raw and record_len != image_len + sizeof(span_t):
            raise ValueError(f"records of {record_len} bytes of a table that cannot be decoded")
        if wanted and not raw:
            check_ops(<const wire_op_t*> <const char*> ops, n, image_len, record_len)
        if any([not 0 <= column < n for column in json_columns]):
            raise ValueError(f"JSON columns {json_columns} of {n}")
        plan = <plan_t*> calloc(1, sizeof(plan_t))
        if plan == NULL:
            raise MemoryError
        plan.column_count = n
        plan.bitmap_len = (n + 7) // 8
        plan.image_len = image_len
        plan.record_len = record_len
        plan.wanted = wanted
        plan.raw = raw
        plan.compressed = compressed
        plan.ops = <wire_op_t*> malloc((n if n else 1) * sizeof(wire_op_t))
        plan.nullable = <uint8_t*> malloc(n + 1)
        plan.json_count = <uint32_t> len(json_columns)
        plan.json_columns = <uint16_t*> malloc((plan.json_count + 1) * sizeof(uint16_t))
        if plan.ops == NULL or plan.json_columns == NULL or plan.nullable == NULL:
            free_plan(plan)
            raise MemoryError
        if condition is not None:
            try:
                self.give_condition(plan, scan, condition[0], condition[1], condition[2])
            except BaseException:
                free_plan(plan)
                raise
        memcpy(plan.ops, <const char*> ops, n * sizeof(wire_op_t))
        if nullable is None:
            memset(plan.nullable, 1, n)
        else:
            memcpy(plan.nullable, <const char*> nullable, n)
        for i in range(plan.json_count):
            plan.json_columns[i] = json_columns[i]
        self.loop.plans[self.loop.plan_count] = plan
        self.loop.plan_count += 1
        return self.loop.plan_count - 1

    cdef int give_condition(self, plan_t* plan, uint32_t scan, bytes tests, bytes program, bytes pool) except -1:
        cdef plan_t* looked_at
        if scan >= self.loop.plan_count or self.loop.plans[scan].column_count != plan.column_count or plan.raw:
            raise ValueError(f"no plan {scan} for the columns of a condition")
        looked_at = self.loop.plans[scan]
        plan.condition = condition_of(
            tests, program, pool, plan.column_count, looked_at.image_len, looked_at.record_len)
        plan.scan = looked_at
        return 0

    def add_definition(self, uint32_t plan, Definition definition=None, *, bint shared=False):
        """Add the definition that `run` came back with RUN_TABLE for.

        Parameters
        ----------
        plan : int
            Index of its plan.
        definition : Definition or None
            The definition that its batches refer to; None: there will be no batches.
        shared : bool
            Other definitions of the same shape have the same plan, so `run` need not come back for them.

        Returns
        -------
        int
            Index of its shape.
        """
        cdef table_cache_t* tables = &self.loop.tables
        cdef content_t* content = &self.loop.pending
        cdef uint32_t shape
        cdef uint32_t index
        if plan >= self.loop.plan_count or content.data == NULL:
            raise ValueError("no plan, or no definition was asked for")
        if definition is not None and definition.dtype.itemsize != self.loop.plans[plan].record_len:
            raise ValueError(
                f"records of {definition.dtype.itemsize} bytes: the plan makes {self.loop.plans[plan].record_len}"
            )
        shape = find_shape(tables, content)
        if shape == NO_TABLE:
            shape = add_shape(tables, content, NO_TABLE)
            if shape == NO_TABLE:
                raise MemoryError
            self.shapes.append(definition)
        if definition is not None and (plan >= <uint32_t> len(self.plans) or self.plans[plan] is None):
            self.plans.extend([None] * (<Py_ssize_t> plan + 1 - len(self.plans)))
            self.plans[plan] = definition.plan
            if self.wishes.layout_of(definition.plan) is not None:      # another loop's batches were asked for columns
                self.followed = 0
        if shared:
            tables.shapes[shape].plan = plan
        index = add_definition(tables, content, shape, plan, self.loop.plans[plan].column_count)
        if index == NO_TABLE or set_table_id(tables, self.loop.pending_id, index) != DECODE_OK:
            raise MemoryError
        self.definitions.extend([None] * (<Py_ssize_t> index - len(self.definitions)))
        self.definitions.append(definition)
        content.data = NULL
        return shape

    def drop_plans(self):
        """Forget every plan and table id: definitions changed, or too many are idle. The group must be taken first."""
        cdef uint32_t i
        if self.loop.group.records:
            raise ValueError("the group must be taken before")
        for i in range(self.loop.group.batch_count):       # left from rows that could not be decoded
            release_batch(&self.loop.group.batches[i])
        self.loop.group.batch_count = 0
        release_chunks(&self.loop)
        free_cache(&self.loop.tables)
        self.shapes.clear()
        self.definitions.clear()
        for i in range(self.loop.plan_count):
            free_plan(self.loop.plans[i])
        self.loop.plan_count = 0
        self.plans.clear()
        self.layouts.clear()
        self.wishes = Wishes()
        self.followed = 0
