package flight

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// pythonCommand returns a command that runs testdata/peer.py with PyArrow.
func pythonCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	name := os.Getenv("DLX_MODULES_PYTHON")
	if name == "" {
		name = filepath.Join("..", "..", ".venv-modules", "bin", "python")
	}
	if _, err := os.Stat(name); err != nil {
		if testing.Short() {
			t.Skip("PyArrow is not installed: make installs it")
		}
		t.Fatal("PyArrow is not installed: run make .venv-modules/ready, or set DLX_MODULES_PYTHON")
	}
	return exec.CommandContext(t.Context(), name, append([]string{filepath.Join("testdata", "peer.py")}, args...)...)
}

// certificate makes a certificate for 127.0.0.1, and returns it also as PEM.
func certificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// writeElements writes the bytes of a tensor of each type into a folder, and returns the tensors by their types.
func writeElements(t *testing.T) (folder string, tensors map[string]*core.Tensor) {
	t.Helper()
	folder, tensors = t.TempDir(), map[string]*core.Tensor{}
	for _, typ := range types {
		name := typ.dtype.String()
		x := patterned(t, typ.dtype, 11, 2, 3)
		tensors[name] = x
		if err := os.WriteFile(filepath.Join(folder, name), bytesOfHost(t, x), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder, tensors
}

// bytesOfHost returns the bytes of a row-major tensor of the host.
func bytesOfHost(t *testing.T, x *core.Tensor) []byte {
	t.Helper()
	p, err := core.Values[uint8](coretest.Keep(t)(bytesOf(x)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// PyArrow's client reads from our server and writes to it, with TLS and a token.
func TestPyArrowClient(t *testing.T) {
	pair, roots := certificate(t)
	s, address := serve(t, ServerOptions{
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Tokens: []string{"other", "secret"}, Device: openCPU(t), BatchBytes: 64,
	})
	folder, tensors := writeElements(t)
	rootsFile := filepath.Join(folder, "roots.pem")
	if err := os.WriteFile(rootsFile, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	keep := coretest.Keep(t)
	for name, x := range tensors {
		if err := s.Offer(name, x); err != nil {
			t.Fatal(err)
		}
	}
	flat := keep(tensors["float64"].Reshape(66))
	if err := s.Offer("scalar", keep(flat.Index(0, 0))); err != nil {
		t.Fatal(err)
	}
	if err := s.Offer("empty", patterned(t, core.TypeFloat32, 3, 0, 2)); err != nil {
		t.Fatal(err)
	}
	bools := keep(core.FromSlice([]bool{true, false, false, true, true, false}, 2, 3))
	if err := s.Offer("bools", bools); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range tensors {
		names = append(names, name)
	}
	out, err := pythonCommand(t, "client", folder, "grpc+tls://"+address, rootsFile, "secret", strings.Join(names, " ")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, x := range tensors {
		for _, how := range []string{"in 1", "in 3", "in 11", "with shape"} {
			wantSame(t, keep(s.Tensor(name+" "+how)), x)
		}
		wantSame(t, keep(s.Tensor(name+" flat")), keep(x.Reshape(66)))
		part := keep(core.Concat(t.Context(), []*core.Tensor{x, x}, 0, core.AllocOptions{}))
		wantSame(t, keep(s.Tensor(name+" part")), keep(part.Slice(0, 3, 14, 1)))
	}
	wantSame(t, keep(s.Tensor("scalar of Python")), keep(keep(tensors["int16"].Reshape(66)).Index(0, 0)))
	wantSame(t, keep(s.Tensor("bools of Python")), bools)
	wantSame(t, keep(s.Tensor("permuted")), keep(tensors["int16"].Permute(0, 2, 1)))
	for _, name := range s.Names() {
		if slices.Contains([]string{"nulls", "list", "numbers", "bits", "too few", "too many", "turned", "no rows"}, name) {
			t.Errorf("%s stayed", name)
		}
	}
	if s.put != 6*len(tensors)+3 {
		t.Errorf("%d tensors were put", s.put)
	}
	var bytes int64
	for _, e := range s.entries {
		if e.put {
			bytes += e.t.NumBytes()
		}
	}
	if s.bytes != bytes {
		t.Errorf("the budget has %d bytes, the tensors have %d", s.bytes, bytes)
	}
}

// Our client reads from PyArrow's server and writes to it.
func TestPyArrowServer(t *testing.T) {
	folder, tensors := writeElements(t)
	command := pythonCommand(t, "server", folder)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	keep, d := coretest.Keep(t), openCPU(t)
	c := connect(t, "127.0.0.1:"+strings.TrimSpace(port), ClientOptions{BatchBytes: 64})
	for name, x := range tensors {
		got, r, err := c.Get(ctx, name, d)
		if name == "uint64" {
			coretest.WantError(t, err, core.ErrNotSupported, "compressed batches")
		} else if err != nil {
			t.Fatal(name, err)
		} else {
			wantSame(t, got, x)
			_ = got.Close()
			if r.Bytes != x.NumBytes() || r.Batches < 2 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		turned := keep(x.Permute(0, 2, 1))
		if _, err := c.Put(ctx, name, turned); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(folder, "put "+name))
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, keep(tensorOn(data, x.DType(), turned.Shape())), turned)
		var shape []int64
		if text, err := os.ReadFile(filepath.Join(folder, "shape "+name)); err != nil || json.Unmarshal(text, &shape) != nil || !slices.Equal(shape, turned.Shape()) {
			t.Errorf("%s: shape %v: %v", name, shape, err)
		}
	}
	list, err := c.List(ctx)
	if want := []Info{{"int8", core.TypeInt8, []int64{11, 2, 3}, 66}}; err != nil || fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v: %v", list, want, err)
	}
	if _, _, err = c.Get(ctx, "absent", d); err == nil {
		t.Error("there is no such file")
	}
}
