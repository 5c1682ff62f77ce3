package h2spec
import _ "github.com/summerwind/h2spec"
