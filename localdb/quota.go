package localdb

import (
	"database/sql"
	"fmt"
)

// A Quota is what is kept of one quota's counter.
type Quota struct {
	Key   []byte // the counter's whole identity
	Until int64  // when its period ends, and it with it, in Unix nanoseconds
	Last  int64  // when it was last charged, in Unix nanoseconds
	Used  uint64 // in the period; 0 deletes it
}

// quotas is the table of quotas. What has expired comes first; used has the bits of a uint64.
var quotas = []string{`CREATE TABLE quota (
	until INTEGER NOT NULL, key BLOB NOT NULL, last INTEGER NOT NULL, used INTEGER NOT NULL,
	PRIMARY KEY (until, key)
) WITHOUT ROWID, STRICT`}

// SaveQuotas writes quotas, all or none, and waits until they are on the disk. It drops some of those
// that expired before now, in Unix nanoseconds.
func (d *DB) SaveQuotas(now int64, quotas []Quota) error {
	err := d.inTransaction(func(tx *sql.Tx) error {
		if err := put(tx, quotas); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM quota WHERE (until, key) IN
			(SELECT until, key FROM quota WHERE until <= ? ORDER BY until LIMIT 10000)`, now)
		return err
	})
	if err != nil {
		return d.fail(fmt.Sprintf("save %d quotas", len(quotas)), err)
	}
	return nil
}

func put(tx *sql.Tx, quotas []Quota) error {
	save, err := tx.Prepare(`INSERT OR REPLACE INTO quota VALUES (?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer save.Close()
	for _, q := range quotas {
		if q.Used == 0 {
			_, err = tx.Exec(`DELETE FROM quota WHERE until = ? AND key = ?`, q.Until, q.Key)
		} else {
			_, err = save.Exec(q.Until, q.Key, q.Last, int64(q.Used))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LoadQuotas calls visit with every quota that lasts beyond now, in Unix nanoseconds, those that
// expire last first. Its Key is good only during the call. It ends when visit returns false.
func (d *DB) LoadQuotas(now int64, visit func(Quota) bool) error {
	if err := d.loadQuotas(now, visit); err != nil {
		return d.fail("load quotas", err)
	}
	return nil
}

func (d *DB) loadQuotas(now int64, visit func(Quota) bool) error {
	rows, err := d.sql.Query(`SELECT until, key, last, used FROM quota WHERE until > ? ORDER BY until DESC, key DESC`, now)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var q Quota
		var key sql.RawBytes
		var used int64
		if err := rows.Scan(&q.Until, &key, &q.Last, &used); err != nil {
			return err
		}
		if q.Key, q.Used = key, uint64(used); !visit(q) {
			return rows.Close()
		}
	}
	return rows.Err()
}
