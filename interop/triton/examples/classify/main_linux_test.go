package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/triton/internal/realserver"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// root is the folder of the module dlx.
const root = "../../../.."

// digits returns the images of testdata and what they show.
func digits(t *testing.T) (images []float64, shows []int64) {
	t.Helper()
	for name, into := range map[string]func(*core.Tensor) error{
		"digits":        func(x *core.Tensor) (err error) { images, err = core.ToSlice[float64](t.Context(), x); return err },
		"digits_target": func(x *core.Tensor) (err error) { shows, err = core.ToSlice[int64](t.Context(), x); return err },
	} {
		f, err := tensorfile.Open(filepath.Join(root, "testdata", name+".npy"), tensorfile.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		err = into(x)
		x.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return images, shows
}

// Images that the model has not seen are classified by Triton's server, through shared memory. A nearest mean is right for
// almost nine of ten.
func TestClassify(t *testing.T) {
	if testing.Short() {
		t.Skip("Triton's server takes seconds to start")
	}
	const first, count, batch = 1200, 597, 60 // the model knows the first 1,200
	images, shows := digits(t)
	folder := t.TempDir()
	var files []string
	for i := first; i < first+count; i++ {
		m := image.NewGray(image.Rect(0, 0, side, side))
		for j := range m.Pix {
			m.Pix[j] = uint8(images[i*side*side+j])
		}
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(folder, fmt.Sprintf("%d.png", i)))
		if err := os.WriteFile(files[len(files)-1], b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testdata, err := filepath.Abs(filepath.Join(root, "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	python, err := realserver.Python(root)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, err := realserver.New(python, t.TempDir(), realserver.Digits(testdata))
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()

	right := 0
	for start := 0; start < count; start += batch {
		end := min(start+batch, count)
		var out strings.Builder
		if err := classify(ctx, &out, server.GRPC, "digits", files[start:end]); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != end-start+1 || !strings.Contains(lines[end-start], "shm, ") || !strings.HasSuffix(lines[end-start], " 0 copied") {
			t.Fatalf("%d lines: %q", len(lines), lines[len(lines)-1])
		}
		for i, line := range lines[:end-start] {
			if strings.HasSuffix(line, fmt.Sprintf(": %d", shows[first+start+i])) {
				right++
			}
		}
	}
	t.Logf("%d of %d images are classified as what they show", right, count)
	if right < count*85/100 {
		t.Errorf("only %d of %d images are classified as what they show", right, count)
	}

	var out strings.Builder
	if err := classify(ctx, &out, server.GRPC, "digits", []string{"images/three.png", "images/seven.png", "images/eight.png"}); err != nil {
		t.Error(err)
	}
	if want := "images/three.png: 3\nimages/seven.png: 7\nimages/eight.png: 8\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the images of the example: %q", out.String())
	}

	other := filepath.Join(folder, "other.png")
	if err := os.WriteFile(other, []byte("no image"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]string{nil, {other}, {filepath.Join(folder, "nothing.png")}} {
		if err := classify(ctx, new(strings.Builder), server.GRPC, "digits", bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
