// Renders a chart's template as helm does, with Go's own templates: render TEMPLATE VALUES.json
package main

import (
	"encoding/json"
	"os"
	"text/template"
)

func main() {
	var values map[string]any
	text, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err == nil {
		parsed, wrong := template.ParseFiles(os.Args[1])
		if err = wrong; err == nil {
			err = parsed.Option("missingkey=error").Execute(os.Stdout, values)
		}
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}
