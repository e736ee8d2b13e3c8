// go-mysql's parser on one log, for some seconds; a line for each round: rows, row images, CPU seconds.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

func decode(path string) (rows, images int, err error) {
	parser := replication.NewBinlogParser()
	parser.SetFlavor(mysql.MariaDBFlavor)
	err = parser.ParseFile(path, 0, func(event *replication.BinlogEvent) error {
		if data, ok := event.Event.(*replication.RowsEvent); ok {
			images += len(data.Rows)
			if data.Type() == replication.EnumRowsEventTypeUpdate {
				rows += len(data.Rows) / 2
			} else {
				rows += len(data.Rows)
			}
		}
		return nil
	})
	return rows, images, err
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func main() {
	limit, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		log.Fatal(err)
	}
	for begin := time.Now(); ; {
		start := cpuSeconds()
		rows, images, err := decode(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rows, images, cpuSeconds()-start)
		if time.Since(begin).Seconds() > limit {
			return
		}
	}
}
