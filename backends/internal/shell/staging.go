package shell

// StagingBytes is the size of each half of the staging memory, through which copies between the device and
// the host go in pieces. While the device works on one half, the host works on the other.
const StagingBytes = 4 << 20

// Pieces calls f for each piece of a copy of n bytes: with the number of bytes before it, the half of the
// staging memory that it uses, 0 or 1, and its size. Every piece but the last has StagingBytes bytes. Pieces
// returns the first error, and calls f no more then.
func Pieces(n int64, f func(done int64, half int, size int64) error) error {
	for done, half := int64(0), 0; done < n; done, half = done+StagingBytes, 1-half {
		if err := f(done, half, min(StagingBytes, n-done)); err != nil {
			return err
		}
	}
	return nil
}
