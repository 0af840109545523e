//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/interop/triton/internal/realserver"
)

// bare sends a request over HTTP that was written before, and reads the answer without looking at it: it does what every
// client must, and nothing else. What a request takes here is the time of the server, of two calls of the system and
// of the way between the processes.
type bare struct {
	conn    net.Conn
	answer  *bufio.Reader
	request []byte
	places  [2][]byte // of the input and the output, mapped
	names   []string  // in /dev/shm
	url     string
}

func newBare(ctx context.Context, s *realserver.Server, count int64) (_ *bare, err error) {
	b := &bare{url: s.HTTP}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	size := 4 * count
	for i, side := range []string{"in", "out"} {
		name := fmt.Sprintf("dlx-bench-bare-%s-%d-%d", side, count, os.Getpid())
		f, err := os.OpenFile("/dev/shm/"+name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		b.names = append(b.names, name)
		err = f.Truncate(size)
		if err == nil {
			b.places[i], err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		if err := b.post(ctx, "/v2/systemsharedmemory/region/"+name+"/register", fmt.Sprintf(`{"key":"/%s","offset":0,"byte_size":%d}`, name, size)); err != nil {
			return nil, err
		}
	}
	body := fmt.Sprintf(`{"inputs":[{"name":"IN","shape":[%d],"datatype":"FP32","parameters":{"shared_memory_region":%q,"shared_memory_byte_size":%d}}],`+
		`"outputs":[{"name":"OUT","parameters":{"shared_memory_region":%q,"shared_memory_byte_size":%d}}]}`, count, b.names[0], size, b.names[1], size)
	host := strings.TrimPrefix(s.HTTP, "http://")
	b.request = fmt.Appendf(nil, "POST /v2/models/identity_fp32/infer HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
	b.conn, err = new(net.Dialer).DialContext(ctx, "tcp", host)
	if err == nil {
		b.answer = bufio.NewReader(b.conn)
	}
	return b, err
}

// post sends JSON to the server, which must accept it.
func (b *bare) post(ctx context.Context, path, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return nil
}

// elements returns a place as float32.
func (b *bare) elements(place int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b.places[place][0])), len(b.places[place])/4)
}

// send sends one request, whose input the caller has written.
func (b *bare) send() (time.Duration, error) {
	start := time.Now()
	if _, err := b.conn.Write(b.request); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(b.answer, nil)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(answer.Body)
	took := time.Since(start)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return took, err
}

// close takes the regions away from the server, and removes them.
func (b *bare) close() {
	if b.conn != nil {
		_ = b.conn.Close()
	}
	for i, name := range b.names {
		if err := b.post(context.Background(), "/v2/systemsharedmemory/region/"+name+"/unregister", ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if b.places[i] != nil {
			_ = unix.Munmap(b.places[i])
		}
		_ = os.Remove("/dev/shm/" + name)
	}
}
