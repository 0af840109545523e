//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// page is the alignment of reads past the page cache.
const page = 4096

// readRaw reads a file by several threads into a buffer for each of them, which it uses again and again.
func readRaw(path string, size int64, threads int, block int64, direct bool) (time.Duration, error) {
	flags := os.O_RDONLY
	if direct {
		flags |= unix.O_DIRECT
	}
	buffers := make([][]byte, threads)
	for i := range buffers {
		b, err := unix.Mmap(-1, 0, int(block), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return 0, err
		}
		// A request to the disk has as many pieces as its memory has pages: huge ones make it larger. Not all systems have them.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
		for at := 0; at < len(b); at += page {
			b[at] = 1
		}
		defer func() { _ = unix.Munmap(b) }()
		buffers[i] = b
	}
	start := time.Now()
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var next, read atomic.Int64
	errs := make([]error, threads)
	var wait sync.WaitGroup
	for i := range threads {
		wait.Go(func() {
			for {
				at := next.Add(block) - block
				if at >= size {
					return
				}
				n, err := file.ReadAt(buffers[i], at)
				read.Add(int64(n))
				if err != nil && !errors.Is(err, io.EOF) && int64(n) < size-at {
					errs[i] = err
					return
				}
			}
		})
	}
	wait.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if read.Load() != size {
		return 0, fmt.Errorf("%d of %d bytes were read", read.Load(), size)
	}
	return took, nil
}

// rawWay is a way to read a file alone.
type rawWay struct {
	threads int
	block   int64
	took    time.Duration
}

// rawWays is how many ways to read a file alone take part in the rounds. The fastest counts.
const rawWays = 3

// bestRaw returns the numbers of threads and sizes of blocks with which a file was read fastest in two trials. Each trial has
// an order of its own, since some disks are fast only for the first reads. The last way is that of dlx.
func (b *bench) bestRaw(path, state string) ([]rawWay, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var ways []rawWay
	for _, threads := range []int{1, 2, 4, 8} {
		for _, block := range []int64{1 << 20, 4 << 20, 16 << 20} {
			ways = append(ways, rawWay{threads, block, 1 << 62})
		}
	}
	for trial := range uint64(2) {
		rand.New(rand.NewPCG(trial, 3)).Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
		for i := range ways {
			if err := b.set(state, path); err != nil {
				return nil, err
			}
			took, err := readRaw(path, info.Size(), ways[i].threads, ways[i].block, state == cold)
			if err != nil {
				return nil, err
			}
			ways[i].took = min(ways[i].took, took)
		}
	}
	slices.SortFunc(ways, func(a, b rawWay) int { return cmp.Compare(a.took, b.took) })
	own := func(w rawWay) bool { return w.threads == 4 && w.block == 4<<20 }
	if !slices.ContainsFunc(ways[:rawWays], own) {
		ways[rawWays-1] = ways[slices.IndexFunc(ways, own)]
	}
	return ways[:rawWays], nil
}

// set drops a file from the page cache, and reads it again if it is to be warm. Who reads it decides how large the pages of
// the cache are, and so how long it takes to map them.
func (b *bench) set(state, path string) error {
	if err := b.drop(path); err != nil || state == cold {
		return err
	}
	return fill(path)
}

// fill reads a file into the page cache.
func fill(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file})
	return err
}

// drop drops a file from the page cache, or all of them.
func (b *bench) drop(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return err
	}
	if b.dropAll {
		unix.Sync()
		return os.WriteFile("/proc/sys/vm/drop_caches", []byte("1\n"), 0)
	}
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// cachedPart returns the part of a file that is in the page cache, from 0 to 1; -1 if the system does not tell.
func cachedPart(path string) (float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{Len: uint64(info.Size())}, &stat, 0); err != nil {
		return -1, nil
	}
	return float64(stat.Cache*page) / float64(max(info.Size(), 1)), nil
}
