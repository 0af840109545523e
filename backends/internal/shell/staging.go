package shell

// StagingBytes is the size of half of the memory through which copies between the device and
// the host go in pieces: while the device works on one half, the host works on the other.
const StagingBytes = 4 << 20

// Pieces calls f for each piece of a copy of n bytes, of which each but the last is as large
// as half of the staging memory: with the bytes before it, the half that it goes through,
// 0 or 1, and its size. It stops at the first error, and returns it.
func Pieces(n int64, f func(done int64, half int, size int64) error) error {
	for done, half := int64(0), 0; done < n; done, half = done+StagingBytes, 1-half {
		if err := f(done, half, min(StagingBytes, n-done)); err != nil {
			return err
		}
	}
	return nil
}
