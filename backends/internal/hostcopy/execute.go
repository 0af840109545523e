package hostcopy

import "unsafe"

// element lists the types that represent elements of their size. Only the size matters. Addresses need no
// alignment: Go may load and store types without pointers unaligned wherever the processor can.
type element interface {
	uint8 | uint16 | uint32 | uint64 |
		[3]uint8 | [6]uint8 | [12]uint8 | [16]uint8 | [32]uint8 | row
}

// row represents elements of any other size, which is known only when the copy runs.
type row struct{}

// execute carries out a schedule.
func execute[T element](s *schedule, dst, src unsafe.Pointer) {
	if s.tile {
		buf := tiles.Get().(*[tileBytes]byte)
		walkTiles[T](s, s.outer, dst, src, unsafe.Pointer(buf))
		tiles.Put(buf)
		return
	}
	walkOuter[T](s, s.outer, dst, src)
}

func walkTiles[T element](s *schedule, axes []axis, dst, src, buf unsafe.Pointer) {
	if len(axes) == 0 {
		transpose[T](s, dst, src, buf)
		return
	}
	a := axes[0]
	for i := range a.N {
		walkTiles[T](s, axes[1:], unsafe.Add(dst, i*a.Dst), unsafe.Add(src, i*a.Src), buf)
	}
}

func walkOuter[T element](s *schedule, axes []axis, dst, src unsafe.Pointer) {
	if len(axes) == 0 {
		for i := int64(0); i < s.run.N; i += s.block {
			n := min(s.block, s.run.N-i)
			walkInner[T](s, s.inner, unsafe.Add(dst, i*s.run.Dst), unsafe.Add(src, i*s.run.Src), n)
		}
		return
	}
	a := axes[0]
	for i := range a.N {
		walkOuter[T](s, axes[1:], unsafe.Add(dst, i*a.Dst), unsafe.Add(src, i*a.Src))
	}
}

func walkInner[T element](s *schedule, axes []axis, dst, src unsafe.Pointer, n int64) {
	if len(axes) == 0 {
		run[T](dst, src, s.elem, axis{N: n, Dst: s.run.Dst, Src: s.run.Src})
		return
	}
	a := axes[0]
	for i := range a.N {
		walkInner[T](s, axes[1:], unsafe.Add(dst, i*a.Dst), unsafe.Add(src, i*a.Src), n)
	}
}
