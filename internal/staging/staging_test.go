package staging_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/internal/staging"
)

func TestPiecesUseTheHalvesInTurn(t *testing.T) {
	var got [][3]int64
	err := staging.Pieces(2*staging.PieceBytes+5, func(done int64, half int, size int64) error {
		got = append(got, [3]int64{done, int64(half), size})
		return nil
	})
	want := [][3]int64{{0, 0, staging.PieceBytes}, {staging.PieceBytes, 1, staging.PieceBytes}, {2 * staging.PieceBytes, 0, 5}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestPiecesStopsAtAnError(t *testing.T) {
	full := errors.New("full")
	if err := staging.Pieces(3*staging.PieceBytes, func(done int64, _ int, _ int64) error {
		if done == 0 {
			return full
		}
		t.Error("another piece after an error")
		return nil
	}); err != full {
		t.Errorf("error %v, want %v", err, full)
	}
}
