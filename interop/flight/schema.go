package flight

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
	dlxarrow "github.com/dlx-go/dlx/interop/arrow"
)

const (
	// shapeKey is the key of a tensor's shape in the metadata of a schema.
	shapeKey = "dlx.shape"
	// dtypeKey is the key of the element type of a tensor whose elements are carried by numbers of another type.
	dtypeKey = "dlx.dtype"
	// column is the name of the column that has the tensor.
	column = "tensor"
	// unknown is a number of rows that the sender has not told.
	unknown = -1
	// maxHeader bounds the bytes of the description of a schema or batch.
	maxHeader = 1 << 20
	// maxPairs bounds the pairs in the metadata of a schema or column. Many of them may refer to the same bytes.
	maxPairs = 4096
)

// Numbers of the format of schemas, by the text of the format.
const (
	headerSchema      = 1
	headerRecordBatch = 3
	version4          = 3 // the first version whose batches are as they are now
	typeInt           = 2
	typeFloat         = 3
	typeFixedSizeList = 16
)

// kind describes a tensor as a column.
type kind struct {
	dtype core.DType
	typ   *dlxarrow.FixedShapeType
	rows  int64   // of the column, or unknown
	shape []int64 // of the tensor; the first extent is unknown if rows is
}

// newKind returns the kind of a tensor that is sent.
func newKind(call string, dtype core.DType, shape []int64) (kind, error) {
	value, err := toArrow(call, dtype)
	if err != nil {
		return kind{}, err
	}
	rows, row := rowsOf(shape)
	typ, err := dlxarrow.NewFixedShapeType(value, row, nil, nil)
	if err != nil {
		return kind{}, fail(because(core.ErrLayout, err), call, "a row of shape %v cannot be sent: reshape the tensor so that it has more and smaller rows", row)
	}
	return kind{dtype: dtype, typ: typ, rows: rows, shape: slices.Clone(shape)}, nil
}

// rowsOf returns the number of rows of the column for a tensor, and the shape of a row.
func rowsOf(shape []int64) (rows int64, row []int64) {
	switch {
	case len(shape) == 0:
		return 1, nil
	case slices.Contains(shape[1:], 0):
		return 0, nil
	}
	return shape[0], shape[1:]
}

// schema returns the schema of the column.
func (k *kind) schema() *arrow.Schema {
	text, _ := json.Marshal(append([]int64{}, k.shape...)) // cannot fail
	keys, values := []string{shapeKey}, []string{string(text)}
	if k.dtype != carrier(k.dtype) {
		keys, values = append(keys, dtypeKey), append(values, k.dtype.String())
	}
	metadata := arrow.NewMetadata(keys, values)
	return arrow.NewSchema([]arrow.Field{{Name: column, Type: k.typ}}, &metadata)
}

// header returns the description of the schema as the first message of a stream has it.
func (k *kind) header() []byte {
	p := ipc.GetSchemaPayload(k.schema(), memory.DefaultAllocator)
	defer p.Release()
	meta := p.Meta()
	defer meta.Release()
	return slices.Clone(meta.Bytes())
}

// serialized returns the schema as FlightInfo has it.
func (k *kind) serialized() []byte {
	return flight.SerializeSchema(k.schema(), memory.DefaultAllocator)
}

// rowElements returns the number of elements of a row, at least 1.
func (k *kind) rowElements() int64 {
	return int64(k.typ.StorageType().(*arrow.FixedSizeListType).Len())
}

// rowBytes returns the bytes of a row, at least 1.
func (k *kind) rowBytes() int64 { return k.rowElements() * sizeOf(k.dtype) }

// checkRow returns an error if a row has more bytes than a message may have. That counts without rows, too, so that what
// can be put can also be offered and got.
func (k *kind) checkRow(call string, limit int64) error {
	if k.rowBytes() > limit {
		return fail(core.ErrLayout, call, "a row of the tensor has %d bytes, more than the %d of a message: reshape it so that it has more and smaller rows", k.rowBytes(), limit)
	}
	return nil
}

// bytes returns the bytes of n rows, or false if that is no number.
func (k *kind) bytes(n int64) (int64, bool) {
	if n < 0 || n > math.MaxInt64/k.rowBytes() {
		return 0, false
	}
	return n * k.rowBytes(), true
}

// readInfoSchema reads the schema of a FlightInfo, which has a length before it.
func readInfoSchema(call string, data []byte) (kind, error) {
	if len(data) >= 8 && binary.LittleEndian.Uint32(data) == math.MaxUint32 { // since version 0.15 of the format
		data = data[4:]
	}
	if len(data) < 4 {
		return kind{}, fail(core.ErrInvalid, call, "the schema has %d bytes", len(data))
	}
	n := binary.LittleEndian.Uint32(data)
	if int64(n) > int64(len(data)-4) {
		return kind{}, fail(core.ErrInvalid, call, "the schema says that it has %d bytes, but %d follow", n, len(data)-4)
	}
	return readSchema(call, data[4:4+n])
}

// readSchema reads a schema that another process has made. The result has no rows if the schema does not say how many
// there are. It allocates no more than the message has bytes, times a constant.
func readSchema(call string, data []byte) (kind, error) {
	f, schema, err := readMessage(call, data, headerSchema, "schema")
	if err != nil {
		return kind{}, err
	}
	if schema.i16(0) != 0 {
		return kind{}, fail(core.ErrNotSupported, call, "the elements have their highest byte first: send them in little-endian order")
	}
	fields, n := schema.vector(1, 4)
	if n != 1 && !f.broken {
		return kind{}, fail(core.ErrInvalid, call, "the schema has %d columns, a tensor is one: select it", n)
	}
	field := f.table(f.follow(fields))
	dtype, value, size, err := readFixedSizeList(call, f, field)
	if err != nil {
		return kind{}, err
	}
	name, _ := lookUp(f, field, 6, "ARROW:extension:name")
	parameters, _ := lookUp(f, field, 6, "ARROW:extension:metadata")
	text, hasShape := lookUp(f, schema, 2, shapeKey)
	dtypeName, hasName := lookUp(f, schema, 2, dtypeKey)
	if f.broken {
		return kind{}, malformed(call, "schema")
	}
	if hasName {
		if dtype, err = named(call, dtypeName, dtype); err != nil {
			return kind{}, err
		}
	}
	if name != (*dlxarrow.FixedShapeType)(nil).ExtensionName() {
		return kind{}, fail(core.ErrInvalid, call, "the column has the extension type %.100q, not arrow.fixed_shape_tensor: send a FixedShapeTensorArray", name)
	}
	typ, err := new(dlxarrow.FixedShapeType).Deserialize(arrow.FixedSizeListOf(size, value), parameters)
	if err != nil {
		return kind{}, fail(because(core.ErrInvalid, err), call, "the parameters of the column's type are wrong")
	}
	k := kind{dtype: dtype, typ: typ.(*dlxarrow.FixedShapeType), rows: unknown}
	row := k.rowShape()
	if !hasShape {
		k.shape = append([]int64{unknown}, row...)
		return k, nil
	}
	if err := strictjson.Unmarshal([]byte(text), &k.shape); err != nil || k.shape == nil {
		return kind{}, fail(core.ErrInvalid, call, "%s is %.100q, not a list of extents such as [2,3]", shapeKey, text)
	}
	if _, err := core.NewLayout(k.shape...); err != nil {
		return kind{}, fail(because(core.ErrLayout, err), call, "%s cannot be the shape of a tensor", shapeKey)
	}
	rows, want := rowsOf(k.shape)
	if !slices.Equal(want, row) {
		return kind{}, fail(core.ErrInvalid, call, "%s is %v, for which a row has shape %v, but the column's type says %v", shapeKey, k.shape, want, row)
	}
	if _, ok := k.bytes(rows); !ok {
		return kind{}, fail(core.ErrLayout, call, "%s is %v, which has too many bytes", shapeKey, k.shape)
	}
	k.rows = rows
	return k, nil
}

// rowShape returns the shape of a row as the program sees it.
func (k *kind) rowShape() []int64 {
	stored, axes := k.typ.Shape(), k.typ.Permutation()
	if axes == nil {
		return stored
	}
	shape := make([]int64, len(axes))
	for i, axis := range axes {
		shape[i] = stored[axis]
	}
	return shape
}

// readFixedSizeList reads the type of a column: lists of size numbers.
func readFixedSizeList(call string, f *flatbuffer, field table) (dtype core.DType, value arrow.DataType, size int32, err error) {
	fail := func(sentinel error, format string, args ...any) (core.DType, arrow.DataType, int32, error) {
		return core.DType{}, nil, 0, fail(sentinel, call, format, args...)
	}
	list, _ := field.table(3)
	size = list.i32(0)
	children, n := field.vector(5, 4)
	_, dictionary := field.table(4)
	if id := field.u8(2); !f.broken && (id != typeFixedSizeList || n != 1 || dictionary) {
		return fail(core.ErrInvalid, "the column does not have lists of fixed size: send a FixedShapeTensorArray")
	}
	if f.broken {
		return core.DType{}, nil, 0, malformed(call, "schema")
	}
	if size < 1 {
		return fail(core.ErrInvalid, "the column has lists of %d elements: at least 1 is needed", size)
	}
	child := f.table(f.follow(children))
	typ, _ := child.table(3)
	x := number{kind: child.u8(2)}
	switch x.kind {
	case typeInt:
		x.width, x.signed = typ.i32(0), typ.u8(1) != 0
	case typeFloat:
		x.width = int32(typ.i16(0))
	}
	_, grandchildren := child.vector(5, 4)
	_, dictionary = child.table(4)
	if f.broken {
		return core.DType{}, nil, 0, malformed(call, "schema")
	}
	if grandchildren != 0 || dictionary {
		return fail(core.ErrInvalid, "the elements are nested or in a dictionary: decode them first")
	}
	dtype, value, err = fromNumber(call, x)
	return dtype, value, size, err
}

// lookUp returns the value of a key in a list of pairs. A list of more than maxPairs is malformed.
func lookUp(f *flatbuffer, t table, slot int, key string) (value string, ok bool) {
	at, n := t.vector(slot, 4)
	if n > maxPairs {
		f.broken = true
	}
	for i := range n {
		pair := f.table(f.follow(at + 4*i))
		if f.broken {
			return "", false
		}
		if string(pair.raw(0)) == key { // compares without a copy
			return pair.text(1), true
		}
	}
	return "", false
}

// readMessage returns the table in a message, which is of the kind id.
func readMessage(call string, data []byte, id uint8, what string) (*flatbuffer, table, error) {
	if len(data) > maxHeader {
		return nil, table{}, fail(core.ErrInvalid, call, "the description of a %s has %d bytes; %d are allowed", what, len(data), maxHeader)
	}
	f := &flatbuffer{data: data}
	message := f.root()
	version, got := message.i16(0), message.u8(1)
	content, ok := message.table(2)
	switch {
	case f.broken:
		return nil, table{}, malformed(call, what)
	case got != id:
		return nil, table{}, fail(core.ErrInvalid, call, "a message of kind %d arrived instead of a %s", got, what)
	case version < version4:
		return nil, table{}, fail(core.ErrVersion, call, "the %s has version %d of the format; %d or later is needed", what, version+1, version4+1)
	case !ok:
		return nil, table{}, malformed(call, what)
	}
	return f, content, nil
}

func malformed(call, what string) error {
	return fail(core.ErrInvalid, call, "the description of a %s is malformed", what)
}

// batch is where the elements of a record batch lie.
type batch struct {
	rows   int64
	offset int64 // of the first element in the body
	bytes  int64 // of all elements
}

// readBatch reads the description of a record batch whose body has size bytes.
func (k *kind) readBatch(call string, data []byte, size int64) (batch, error) {
	f, content, err := readMessage(call, data, headerRecordBatch, "batch")
	if err != nil {
		return batch{}, err
	}
	claimed := f.root().i64(3)
	b := batch{rows: content.i64(0)}
	nodes, nodesN := content.vector(1, 16)
	buffers, buffersN := content.vector(2, 16)
	_, compressed := content.table(3)
	want, fits := k.bytes(b.rows)
	switch {
	case f.broken:
		return batch{}, malformed(call, "batch")
	case compressed:
		return batch{}, fail(core.ErrNotSupported, call, "the batch is compressed: send it without compression")
	case claimed != size:
		return batch{}, fail(core.ErrInvalid, call, "the batch says that its body has %d bytes, it has %d", claimed, size)
	case nodesN != 2 || buffersN != 3:
		return batch{}, fail(core.ErrInvalid, call, "the batch has %d arrays and %d buffers; a tensor has 2 and 3", nodesN, buffersN)
	case !fits:
		return batch{}, fail(core.ErrInvalid, call, "the batch says that it has %d rows of %d bytes", b.rows, k.rowBytes())
	}
	b.bytes = want
	for i, n := range []int64{b.rows, b.rows * k.rowElements()} {
		if length, nulls := f.i64(nodes+16*i), f.i64(nodes+16*i+8); length != n {
			return batch{}, fail(core.ErrInvalid, call, "array %d of the batch has length %d, not %d", i, length, n)
		} else if nulls != 0 {
			return batch{}, fail(core.ErrInvalid, call, "%d elements are null, which a tensor cannot express: fill them first", nulls)
		}
	}
	b.offset = f.i64(buffers + 32)
	if length := f.i64(buffers + 40); b.offset < 0 || length < want || length > size || b.offset > size-length {
		return batch{}, fail(core.ErrInvalid, call, "the elements are bytes %d to %d+%d of a body of %d bytes, and need %d", b.offset, b.offset, length, size, want)
	}
	return b, nil
}
