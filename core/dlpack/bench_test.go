//go:build cgo && !windows

package dlpack_test

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

// BenchmarkEmptyCgoCall is what the other figures are held against.
func BenchmarkEmptyCgoCall(b *testing.B) {
	for b.Loop() {
		hostile.EmptyCall()
	}
}

// BenchmarkExport counts the exports alone, 64 at a time: its ns/op are those of
// one export. Their consumers and the way back are not in the time.
func BenchmarkExport(b *testing.B) {
	tensor := iota32(b, 2, 3, 4)
	var exported [64]*dlpack.ManagedTensorVersioned
	var spent time.Duration
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		start := time.Now()
		for i := range exported {
			exported[i], _ = dlpack.Export(tensor)
		}
		spent += time.Since(start)
		for _, m := range exported {
			hostile.Consume(m)
		}
		dlpack.Flush()
		rounds++
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(rounds*len(exported)), "ns/op")
}

// BenchmarkExportConsumeDelete is a whole round: export, one call of C that reads
// the struct and calls the deleter, and taking the struct back.
func BenchmarkExportConsumeDelete(b *testing.B) {
	tensor := iota32(b, 2, 3, 4)
	b.ReportAllocs()
	for b.Loop() {
		m, err := dlpack.Export(tensor)
		if err != nil {
			b.Fatal(err)
		}
		hostile.Consume(m)
	}
}

// BenchmarkExportConsumeDeleteParallel is that from as many goroutines as there are processors.
func BenchmarkExportConsumeDeleteParallel(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		tensor := iota32(b, 2, 3, 4)
		for pb.Next() {
			m, err := dlpack.Export(tensor)
			if err != nil {
				b.Error(err)
				return
			}
			hostile.Consume(m)
		}
	})
}

// BenchmarkImportDelete imports a tensor of a C producer and closes it, which
// calls the producer's deleter.
func BenchmarkImportDelete(b *testing.B) {
	m := hostile.Immortal()
	b.ReportAllocs()
	for b.Loop() {
		tensor, err := dlpack.Import(m, dlpack.ImportOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := tensor.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadDelete reads a description of a tensor of a C producer, and calls
// the producer's deleter.
func BenchmarkReadDelete(b *testing.B) {
	m := hostile.Immortal()
	b.ReportAllocs()
	var d dlpack.Description
	for b.Loop() {
		if err := d.Read(m, dlpack.ImportOptions{}); err != nil {
			b.Fatal(err)
		}
		dlpack.Delete(m)
	}
}

// BenchmarkRoundTrip exports, imports and closes in one process.
func BenchmarkRoundTrip(b *testing.B) {
	tensor := iota32(b, 2, 3, 4)
	b.ReportAllocs()
	for b.Loop() {
		m, err := dlpack.Export(tensor)
		if err != nil {
			b.Fatal(err)
		}
		back, err := dlpack.Import(m, dlpack.ImportOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := back.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoundTripParallel is that from as many goroutines as there are processors.
func BenchmarkRoundTripParallel(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		tensor := iota32(b, 2, 3, 4)
		for pb.Next() {
			m, err := dlpack.Export(tensor)
			if err != nil {
				b.Error(err)
				return
			}
			back, err := dlpack.Import(m, dlpack.ImportOptions{})
			if err != nil {
				b.Error(err)
				return
			}
			back.Close()
		}
	})
}
