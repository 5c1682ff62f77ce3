package localdb

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// A Quota is what is kept of one quota's counter.
type Quota struct {
	Key   []byte // the counter's whole identity
	Until int64  // when its period ends, and it with it, in Unix nanoseconds
	Last  int64  // when it was last charged, in Unix nanoseconds
	Used  uint64 // in the period; 0 deletes it
}

// A record is under its Until and its Key, so that what has expired comes first.
const (
	untilSize = 8
	valueSize = 16
)

func (q *Quota) recordKey() []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, untilSize+len(q.Key)), uint64(q.Until)), q.Key...)
}

func (q *Quota) value() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, valueSize), uint64(q.Last)), q.Used)
}

// parse reads a record. k and v stay the database's, and the Quota's Key with them.
func parse(k, v []byte) (Quota, bool) {
	if len(k) < untilSize || len(v) != valueSize {
		return Quota{}, false
	}
	return Quota{
		Key: k[untilSize:], Until: int64(binary.BigEndian.Uint64(k)),
		Last: int64(binary.BigEndian.Uint64(v)), Used: binary.BigEndian.Uint64(v[untilSize:]),
	}, true
}

// SaveQuotas writes quotas, all or none, and waits until they are on the disk. It drops some of those
// that expired before now, in Unix nanoseconds.
func (d *DB) SaveQuotas(now int64, quotas []Quota) error {
	err := d.guard(func() error {
		return d.bolt.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(quotaBucket)
			for i := range quotas {
				if err := quotas[i].put(b); err != nil {
					return err
				}
			}
			return expire(b, now)
		})
	})
	if err != nil {
		return fmt.Errorf("%s: save %d quotas: %w", d.path, len(quotas), cause(err))
	}
	return nil
}

func (q *Quota) put(b *bbolt.Bucket) error {
	if q.Used == 0 {
		return b.Delete(q.recordKey())
	}
	return b.Put(q.recordKey(), q.value())
}

// expire deletes the first few records that expired before now.
func expire(b *bbolt.Bucket, now int64) error {
	const atOnce = 10_000
	var old [][]byte
	c := b.Cursor()
	for k, v := c.First(); k != nil && len(old) < atOnce; k, v = c.Next() {
		if q, ok := parse(k, v); ok && q.Until > now {
			break
		}
		old = append(old, k)
	}
	for _, k := range old {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// LoadQuotas calls visit with every quota that lasts beyond now, in Unix nanoseconds, those that
// expire last first. Its Key is good only during the call. It ends when visit returns false.
func (d *DB) LoadQuotas(now int64, visit func(Quota) bool) error {
	err := d.guard(func() error {
		return d.bolt.View(func(tx *bbolt.Tx) error {
			c := tx.Bucket(quotaBucket).Cursor()
			for k, v := c.Last(); k != nil; k, v = c.Prev() {
				q, ok := parse(k, v)
				if ok && (q.Until <= now || !visit(q)) {
					break
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("%s: load quotas: %w", d.path, err)
	}
	return nil
}
