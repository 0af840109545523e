package cpu

import (
	"math/bits"
	"testing"
)

func TestClassSizes(t *testing.T) {
	for _, c := range []struct{ size, want int64 }{
		{1, 256}, {255, 256}, {256, 256}, {257, 512}, {1024, 1024}, {1793, 2048},
		{2048, 2048}, {2049, 2304}, {4096, 4096}, {4097, 4608}, {4609, 5120},
		{1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 1<<17}, {maxSize - 1, maxSize}, {maxSize, maxSize},
	} {
		if got := classSize(classOf(c.size)); got != c.want {
			t.Errorf("%d bytes get a block of %d, want %d", c.size, got, c.want)
		}
	}
}

func TestClassesAreNumberedBySize(t *testing.T) {
	if got := classOf(maxSize); got != numClasses-1 {
		t.Errorf("the class of maxSize is %d, want the last, %d", got, numClasses-1)
	}
	for c := range numClasses {
		size := classSize(c)
		if classOf(size) != c {
			t.Errorf("class %d holds %d bytes, whose class is %d", c, size, classOf(size))
		}
		if c+1 < numClasses && classOf(size+1) != c+1 {
			t.Errorf("%d bytes are of class %d, want %d", size+1, classOf(size+1), c+1)
		}
	}
}

func FuzzClasses(f *testing.F) {
	for shift := range bits.Len64(maxSize) {
		f.Add(int64(1) << shift)
		f.Add(int64(1)<<shift + 1)
	}
	f.Fuzz(func(t *testing.T, size int64) {
		size = 1 + int64(uint64(size-1)%maxSize) // what a pool is asked for
		c := classOf(size)
		block := classSize(c)
		switch {
		case c < 0 || c >= numClasses:
			t.Fatalf("%d bytes are of class %d of %d", size, c, numClasses)
		case block < size || block%alignment != 0:
			t.Fatalf("%d bytes get a block of %d", size, block)
		case block-size >= max(alignment, (size+7)/8):
			t.Fatalf("%d bytes get a block of %d, which wastes %d", size, block, block-size)
		case c > 0 && classSize(c-1) >= size:
			t.Fatalf("%d bytes get a block of %d, but one of %d is enough", size, block, classSize(c-1))
		}
	})
}
