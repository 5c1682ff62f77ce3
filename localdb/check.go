package localdb

import (
	"encoding/binary"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// The file is a tree of pages. bbolt follows their references as they are, for ever if they lead in
// a circle; so a file is checked before it is used.
//
//	page:    id u64, flags u16, count u16, overflow u32, then count elements of 16 bytes, then their data
//	branch:  position u32, key size u32, id of the page below u64
//	leaf:    flags u32, position u32, key size u32, value size u32
//	bucket:  a leaf's value: id of its root u64, sequence u64; if the root is 0, a page follows
//
// Numbers are in the machine's order; a position is counted from its element.
const (
	headerSize    = 16
	elementSize   = 16
	branchPage    = 1
	leafPage      = 2
	bucketLeaf    = 1
	firstDataPage = 2 // the two before it are the roots of all
)

// A checker walks a file's tree.
type checker struct {
	file     *os.File
	pageSize int64
	pages    uint64 // in use at most
	seen     map[uint64]bool
	todo     []uint64
}

// check reports whether all that is reachable is whole and hangs together as a tree.
func (d *DB) check() error {
	file, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer file.Close()
	return d.bolt.View(func(tx *bbolt.Tx) error {
		size := int64(d.bolt.Info().PageSize)
		c := checker{file: file, pageSize: size, pages: uint64(tx.Size() / size), seen: make(map[uint64]bool)}
		if err := c.follow(uint64(tx.Cursor().Bucket().Root())); err != nil {
			return err
		}
		for len(c.todo) > 0 {
			id := c.todo[len(c.todo)-1]
			c.todo = c.todo[:len(c.todo)-1]
			if err := c.page(id); err != nil {
				return err
			}
		}
		return nil
	})
}

// damaged is what is wrong with a page.
func damaged(id uint64, format string, args ...any) error {
	return fmt.Errorf("%w (page %d: %s)", ErrDamaged, id, fmt.Sprintf(format, args...))
}

// follow notes a reference to a page, to which there may be only one.
func (c *checker) follow(id uint64) error {
	if id < firstDataPage || id >= c.pages {
		return damaged(id, "there are %d", c.pages)
	}
	if c.seen[id] {
		return damaged(id, "it has two places in the tree")
	}
	c.seen[id] = true
	c.todo = append(c.todo, id)
	return nil
}

// page checks the page id, and notes what hangs below it.
func (c *checker) page(id uint64) error {
	head := make([]byte, headerSize)
	if _, err := c.file.ReadAt(head, int64(id)*c.pageSize); err != nil {
		return damaged(id, "%v", err)
	}
	overflow := uint64(binary.NativeEndian.Uint32(head[12:]))
	if got := binary.NativeEndian.Uint64(head); got != id {
		return damaged(id, "it says that it is %d", got)
	}
	if id+overflow >= c.pages {
		return damaged(id, "it is longer than the file")
	}
	data := make([]byte, int64(overflow+1)*c.pageSize)
	if _, err := c.file.ReadAt(data, int64(id)*c.pageSize); err != nil {
		return damaged(id, "%v", err)
	}
	return c.elements(id, data)
}

// elements checks what stands in a page, whose bytes are data.
func (c *checker) elements(id uint64, data []byte) error {
	if len(data) < headerSize {
		return damaged(id, "it is cut")
	}
	flags, count := binary.NativeEndian.Uint16(data[8:]), int(binary.NativeEndian.Uint16(data[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 {
		return damaged(id, "it is of no kind (%#x, %d elements)", flags, count)
	}
	for i := range count {
		at := headerSize + i*elementSize
		if at+elementSize > len(data) {
			return damaged(id, "%d elements have no room", count)
		}
		var err error
		if flags == branchPage {
			err = c.branch(id, data[at:])
		} else {
			err = c.leaf(id, data[at:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// branch checks one element of a branch page; the page's bytes go on after it.
func (c *checker) branch(id uint64, e []byte) error {
	if _, ok := cut(e, binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:])); !ok {
		return damaged(id, "a key ends outside")
	}
	return c.follow(binary.NativeEndian.Uint64(e[8:]))
}

// leaf checks one element of a leaf page.
func (c *checker) leaf(id uint64, e []byte) error {
	position, keySize := binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:])
	if _, ok := cut(e, position, keySize); !ok {
		return damaged(id, "a key ends outside")
	}
	value, ok := cut(e[uint64(position)+uint64(keySize):], 0, binary.NativeEndian.Uint32(e[12:]))
	switch {
	case !ok:
		return damaged(id, "a value ends outside")
	case binary.NativeEndian.Uint32(e)&bucketLeaf == 0:
		return nil
	case len(value) < headerSize:
		return damaged(id, "a bucket is cut")
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.follow(root)
	}
	return c.elements(id, value[headerSize:])
}

// cut returns size bytes of b from position, if they are there.
func cut(b []byte, position, size uint32) ([]byte, bool) {
	end := uint64(position) + uint64(size)
	if end > uint64(len(b)) {
		return nil, false
	}
	return b[position:end], true
}
