// go-mysql's parser on one log, for some seconds; a line for each round: rows, row images, seconds.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
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

func main() {
	limit, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		log.Fatal(err)
	}
	for begin := time.Now(); ; {
		start := time.Now()
		rows, images, err := decode(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rows, images, time.Since(start).Seconds())
		if time.Since(begin).Seconds() > limit {
			return
		}
	}
}
