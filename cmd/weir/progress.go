package main

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/weirgate/weir/replay/accesslog"
)

const (
	progressAfter = time.Second // what ends sooner shows nothing
	progressEvery = 200 * time.Millisecond
)

// showProgress shows on a terminal how far the reading of size bytes (below 0: nobody knows how many) has
// come, with rate and time left, until the function that it returns is called.
func showProgress(size int64, read *atomic.Int64) (end func()) {
	if !isTerminal(os.Stderr) {
		return func() {}
	}
	bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetDescription("reading"))
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { draw(bar, read, done) })
	return func() {
		close(done)
		drawing.Wait()
		_ = bar.Clear() // a bar that stays is no failure
	}
}

// draw draws until done is closed.
func draw(bar *progressbar.ProgressBar, read *atomic.Int64, done <-chan struct{}) {
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	for {
		select {
		case <-done:
			return
		case <-wait.C:
			_ = bar.Set64(read.Load()) // a bar that cannot be drawn is no failure
			wait.Reset(progressEvery)
		}
	}
}

// sizeOf is how many bytes the logs have on disk, or -1 if one is no file.
func sizeOf(logs []*accesslog.Log) int64 {
	size := int64(0)
	for _, l := range logs {
		f, err := os.Stat(l.Name)
		if err != nil || !f.Mode().IsRegular() {
			return -1
		}
		size += f.Size()
	}
	return size
}
